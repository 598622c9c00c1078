# SPDX-License-Identifier: Apache-2.0
"""HashTable used from several Python threads at once."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sok_compat.engine import CapacityError, HashTable

THREADS = 4


def run_threads(work):
    """work(0), ..., work(THREADS - 1), started together; their results."""
    barrier = threading.Barrier(THREADS)

    def start(thread):
        barrier.wait()
        return work(thread)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(start, range(THREADS)))


@pytest.mark.parametrize("num_threads", [1, 2])
def test_all_threads_see_the_same_rows(new_table, num_threads):
    table = new_table(4, num_threads=num_threads)
    expected = new_table(4).gather(np.arange(50_000))

    def work(thread):
        random = np.random.default_rng(thread)
        seen = {}
        for _ in range(40):
            keys = random.integers(0, 50_000, 2000)
            seen.update(zip(keys.tolist(), table.insert(keys).tolist()))
            np.testing.assert_array_equal(table.gather(keys), expected[keys])
        return seen

    row_ids = {}
    for seen in run_threads(work):
        for key, row_id in seen.items():
            assert row_ids.setdefault(key, row_id) == row_id
    assert sorted(row_ids.values()) == list(range(len(table)))


def test_no_addition_is_lost(new_table):
    table = new_table(1, initializer="zeros")
    table.insert(np.arange(1000))

    def work(thread):
        keys = np.random.default_rng(thread).permutation(1000)
        for _ in range(50):
            table.scatter_add(keys, np.ones((1000, 1)))

    run_threads(work)
    assert (table.gather(np.arange(1000)) == 50 * THREADS).all()


def test_erasing_touches_nobody_elses_rows(new_table):
    table = new_table(1, initializer="zeros")

    def work(thread):
        keys = np.arange(500) * THREADS + thread
        for step in range(40):
            table.insert(keys)
            table.scatter_add(keys, np.full((500, 1), thread * 100 + step))
            assert (table.gather(keys) == thread * 100 + step).all()
            assert table.erase(keys) == 500

    run_threads(work)
    assert len(table) == 0


def test_a_full_table_takes_whole_batches(new_table):
    table = new_table(1, capacity=1000)

    def work(thread):
        keys = np.arange(400) + 1000 * thread
        try:
            table.insert(keys)
        except CapacityError:
            assert (table.find(keys) == -1).all()
            return False
        return True

    assert sum(run_threads(work)) == 2
    assert len(table) == 800


def _num_threads():
    return len(os.listdir("/proc/self/task"))


def test_tables_share_their_threads():
    before = _num_threads()
    tables = [HashTable(2, num_threads=3) for _ in range(200)]
    tables[0].insert(np.arange(100_000))
    assert _num_threads() <= before + 2
    del tables
    assert _num_threads() <= before


FORKED = """
import multiprocessing, os, subprocess, sys, threading
import numpy as np
from sok_compat.engine import HashTable

table = HashTable(4, num_threads=4)
keys = np.arange(200_000)
row_ids = table.insert(keys)
rows = table.gather(keys)

def use():
    assert (table.find(keys) == row_ids).all()
    assert (table.gather(keys) == rows).all()
    table.insert(keys + 1_000_000)
    other = HashTable(4, num_threads=4)  # threads of the child's own
    assert (other.insert(keys) == row_ids).all()

def in_child(act):
    child = os.fork()
    if child == 0:
        act()
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

def delete():
    global table
    del table

in_child(lambda: None)
in_child(lambda: os._exit(7))
in_child(delete)
in_child(use)
process = multiprocessing.get_context("fork").Process(target=use)
process.start()
process.join()
assert process.exitcode == 0
subprocess.run(["true"], check=True, preexec_fn=use)
assert len(table) == len(keys)  # the parent's is its own
assert (table.gather(keys) == rows).all()
"""

FORKED_IN_A_CALL = """
import os, sys, threading
import numpy as np
from sok_compat.engine import HashTable

table = HashTable(4, num_threads=2, name="busy")
keys = np.arange(300_000)
is_over = False

def work(begin):
    while not is_over:
        table.insert(keys + begin)
        table.erase(keys + begin)

threads = [threading.Thread(target=work, args=[i * len(keys)]) for i in range(2)]
for thread in threads:
    thread.start()
exit_codes = set()
for _ in range(20):
    child = os.fork()
    if child == 0:
        try:
            table.find(keys)
        except RuntimeError as error:
            assert "table 'busy' was in use by another thread" in str(error)
            del table
            sys.exit(8)
        sys.exit(7)
    exit_codes.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
is_over = True
for thread in threads:
    thread.join()
assert len(table) == 0
assert 8 in exit_codes and exit_codes <= {7, 8}, exit_codes
"""


@pytest.mark.parametrize("script", [FORKED, FORKED_IN_A_CALL], ids=["at rest", "in a call"])
def test_a_forked_child_goes_on_and_ends(script):
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
