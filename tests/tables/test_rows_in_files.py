# SPDX-License-Identifier: Apache-2.0
"""Tables whose rows and slots are in files: the same numbers as in memory, few pages in it."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat import doctor
from sok_compat.checkpoint import save_tables_in_checkpoints
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.new_keys import WITH_GRADIENT
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.runtime.op_library import ops
from sok_compat.summaries import stats, summarize_tables
from sok_compat.tables.key_history import KeyHistory
from sok_compat.tables.table import Table
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
DIM = 256  # four rows on a page
NUM_KEYS = 400
ALL_BYTES = 2 * NUM_KEYS * DIM * 4  # rows and one slot


class Model:
    """Adagrad on a table that evicts."""

    def __init__(self, **files):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.table = Table(
                None, DIM, "uniform", name="t", history=KeyHistory(evicts=True), **files
            )
            self.keys = tf1.placeholder(tf.int64, [None])
            self.step = tf1.placeholder(tf.int64, [])
            (self.rows,) = lookup_group([Lookup(self.table, self.keys)], WITH_GRADIENT)
            (gradient,) = tf.gradients(tf.nn.l2_loss(self.rows), [self.table])
            with sok_compat.OptimizerScope([self.table]):
                optimizer = tf1.train.AdagradOptimizer(0.1)
                count = tf1.train.get_or_create_global_step()
                self.train = optimizer.apply_gradients([(gradient, self.table)], count)
            (self.read,) = lookup_group([Lookup(self.table, self.keys)], False)
            self.evict = self.table.evict(count, steps_to_live=30)
            self.exported = self.table.export()
            self.figures = summarize_tables(step=self.step)
            self.saver = tf1.train.Saver()
        self.context = initialized_session(self.graph)

    def run(self, fetches, keys=(), step=0):
        return self.session.run(fetches, {self.keys: keys, self.step: step})


@pytest.mark.parametrize(
    "share, num_steps",
    [
        *((share, 600) for share in (1, 10, 100)),
        *(pytest.param(share, 10_000, marks=pytest.mark.thorough) for share in (1, 10, 100)),
    ],
)
def test_bits_of_a_table_in_memory(disk, share, num_steps):
    save_tables_in_checkpoints()
    random = np.random.default_rng(share)
    files = {"storage_path": disk, "memory_bytes": ALL_BYTES * share // 100}
    models = [Model(), Model(**files)]
    saved = None
    with models[0].context as models[0].session, models[1].context as models[1].session:
        for step in range(num_steps):
            keys = random.zipf(1.2, 16) % NUM_KEYS
            kind = random.choice(["train", "read", "evict", "save", "restore"], p=[
                0.6, 0.3, 0.08, 0.01, 0.01,
            ])  # fmt: skip
            if kind == "save":
                saved = [
                    model.saver.save(model.session, f"{disk}/model{i}", step)
                    for i, model in enumerate(models)
                ]
            elif kind == "restore":
                for model, path in zip(models, reversed(saved or [])):  # of the other one
                    model.saver.restore(model.session, path)
            else:
                fetched = {"train": "rows", "read": "read", "evict": "evict"}[kind]
                fetches = [[getattr(model, fetched)] for model in models]
                if kind == "train":
                    fetches = [[model.rows, model.train] for model in models]
                found = [m.run(f, keys, step)[0] for m, f in zip(models, fetches)]
                np.testing.assert_array_equal(*found)
        for column in zip(*(model.run(model.exported) for model in models)):
            np.testing.assert_array_equal(*column)
        models[1].run(models[1].read, [1])  # leaves as much in memory as a step does
        figures = models[1].run(models[1].figures)
        tags = {each.tag for each in tf1.Summary.FromString(figures).value}
        assert "t/share_of_rows_found_in_memory" in tags
        of_files = next(each for each in stats()["tables"].values() if each["file_bytes"])
        in_memory = next(each for each in stats()["tables"].values() if not each["file_bytes"])
    index_bytes = of_files["bytes"] - of_files["rows"] * 2 * DIM * 4
    most_pages = 2 * 2 * 16  # of one step, beyond the limit
    limit = files["memory_bytes"] + most_pages * 4096 + index_bytes
    assert of_files["resident_bytes"] <= limit
    for name in ("bytes_read", "bytes_written"):
        assert of_files[name] % 4096 == 0 and (of_files[name] > 0 or share == 100)
    assert of_files["rows_missed"] > 0 or share == 100
    assert in_memory["resident_bytes"] == in_memory["bytes"]


def test_prefetched_batches_train_rows_in_files(disk):
    batches = np.arange(NUM_KEYS).reshape(20, -1).repeat(2, 0)  # of 10 pages each
    found = []
    for files in ({}, {"storage_path": disk, "memory_bytes": ALL_BYTES // 4}):
        with tf.Graph().as_default() as graph:
            table = Table(None, DIM, "uniform", name="prefetched", **files)
            dataset = tf.data.Dataset.from_tensor_slices(batches).repeat(3)
            keys = tf1.data.make_one_shot_iterator(dataset).get_next()
            keys = sok_compat.prefetch_lookups(keys)
            (rows,) = lookup_group([Lookup(table, keys)], True)
            (gradient,) = tf.gradients(tf.nn.l2_loss(rows), [table])
            with sok_compat.OptimizerScope([table]):
                train = tf1.train.AdagradOptimizer(0.1).apply_gradients([(gradient, table)])
            with tf1.Session(graph=graph) as session:
                session.run(tf1.global_variables_initializer())
                threads = tf1.train.start_queue_runners(session)
                with pytest.raises(tf.errors.OutOfRangeError):
                    while True:
                        found.append(session.run([rows, train])[0])
                of_files = [s for s in stats()["tables"].values() if s["file_bytes"]]
                lines = doctor.tables_of_process().splitlines()
                for thread in threads:
                    thread.join()
    np.testing.assert_array_equal(found[:120], found[120:])
    line = r"\| prefetched \| 400 \|( [\d.]+ MB \|){2} 0\.\d{3} \|( [\d.]+ MB \|){2}"
    assert any(re.fullmatch(line, each) for each in lines)
    (figures,) = of_files
    assert figures["bytes_read"] > 0 and figures["bytes_written"] > 0
    assert figures["rows_requested"] == 120 * 20 > figures["rows_missed"] > 0


def test_in_eager_mode(disk):
    table = Table(1000, DIM, "ones", storage_path=disk, memory_bytes=4096)
    keys = tf.range(100, dtype=tf.int64)
    (rows,) = lookup_group([Lookup(table, keys)], True)
    np.testing.assert_array_equal(table.export()[1], rows)
    assert table.shape == [1000, DIM]
    np.testing.assert_array_equal(table.read_value()[100:], np.zeros([900, DIM]))


def test_without_a_hash_index(disk):
    table = Table(
        500, DIM, tf.random_uniform_initializer(), use_hash_index=False, storage_path=disk,
        memory_bytes=4096,
    )  # fmt: skip
    keys = tf.constant([499, 0, 250], tf.int64)
    (rows,) = lookup_group([Lookup(table, keys)], True)
    np.testing.assert_array_equal(rows, tf.gather(table.read_value(), keys))


def _bytes_of_files_in_memory():
    """Of this process, as the system counts them."""
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["RssFile"].split()[0]) << 10


def test_the_process_keeps_to_the_limit(disk):
    page_floats, num_keys, limit, batch = 1024, 8_000, 8 << 20, 250
    with tf.Graph().as_default() as graph:
        table = Table(None, page_floats, "ones", storage_path=disk, memory_bytes=limit)
        keys = tf1.placeholder(tf.int64, [None])
        (rows,) = lookup_group([Lookup(table, keys)], True)
        (gradient,) = tf.gradients(rows, [table])
        with sok_compat.OptimizerScope([table]):
            train = tf1.train.AdagradOptimizer(0.1).apply_gradients([(gradient, table)])
        with initialized_session(graph) as session:
            session.run(train, {keys: range(batch)})
            before = _bytes_of_files_in_memory()
            most = 0
            for _ in range(2):
                for first in range(0, num_keys, batch):
                    session.run(train, {keys: range(first, first + batch)})
                    most = max(most, _bytes_of_files_in_memory() - before)
            tiers = session.run(ops.sok_lookup_tier(table.table_handle, tf.range(
                num_keys, dtype=tf.int64)))  # fmt: skip
    of_step = 2 * batch * 4096
    assert most <= limit + of_step + (1 << 20)
    assert 0 < np.sum(tiers == 0) * 2 * 4096 <= limit + of_step


@pytest.mark.parametrize("arguments, message", [
    ({"storage_path": "/no/such/folder", "memory_bytes": 1}, "an existing folder on a disk, got"),
    ({"storage_path": __file__, "memory_bytes": 1}, "an existing folder on a disk, got"),
    ({"storage_path": "."}, "needs memory_bytes, .* an int >= 1, got None"),
    ({"storage_path": ".", "memory_bytes": 0}, "an int >= 1, got 0"),
    ({"memory_bytes": 1}, "memory_bytes 1 needs a storage_path"),
])  # fmt: skip
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        Table(None, 2, "ones", **arguments)


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no tmpfs")
def test_a_folder_in_memory_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="on tmpfs, which is memory"):
        Table(None, 2, "ones", storage_path="/dev/shm", memory_bytes=1)


def test_a_disk_that_is_smaller_than_the_memory_is_refused(disk):
    with pytest.raises(tf.errors.ResourceExhaustedError, match="bytes free, fewer than"):
        Table(None, 2, "ones", storage_path=disk, memory_bytes=1 << 60)


def test_a_full_disk_leaves_the_table_as_it_was(disk):
    capacity = 1 << 32  # of 1 MiB each
    table = Table(
        capacity >> 10,
        1 << 18,
        "ones",
        use_hash_index=False,
        storage_path=disk,
        memory_bytes=1 << 20,
    )
    (rows,) = lookup_group([Lookup(table, tf.constant([1], tf.int64))], True)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="Free space, or name a folder"):
        lookup_group([Lookup(table, tf.constant([(capacity >> 10) - 1], tf.int64))], True)
    assert table.num_keys() == 1
    (again,) = lookup_group([Lookup(table, tf.constant([1], tf.int64))], False)
    np.testing.assert_array_equal(again, rows)


# Each step adds 1 to all rows, so that they say of which step a checkpoint is.
KILLED_WHILE_IT_SAVES = """
import sys, numpy as np, tensorflow as tf
import sok_compat
from sok_compat.checkpoint import save_tables_in_checkpoints
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.tables.table import Table
tf1 = tf.compat.v1
tf1.disable_eager_execution()
save_tables_in_checkpoints()
table = Table(None, 256, "zeros", name="t", storage_path=sys.argv[1], memory_bytes=1 << 20)
keys = np.arange(4000)
(rows,) = lookup_group([Lookup(table, tf.constant(keys))], True)
(gradient,) = tf.gradients(-rows, [table])
step = tf1.train.get_or_create_global_step()
train = tf1.train.GradientDescentOptimizer(1.0).apply_gradients([(gradient, table)], step)
saver = tf1.train.Saver(max_to_keep=2)
with tf1.Session() as session:
    session.run(tf1.global_variables_initializer())
    last = tf.train.latest_checkpoint(sys.argv[2])
    if last:
        saver.restore(session, last)
        values, at = session.run([table.export()[1], step])
        assert values.shape == (4000, 256) and (values == at).all(), at
        print("restored", flush=True)
    while True:
        session.run(train)
        saver.save(session, sys.argv[2] + "/model", step)
        print("saved", flush=True)
"""


@pytest.mark.thorough
def test_a_process_killed_at_any_moment(disk):
    files, checkpoints = disk / "files", disk / "checkpoints"
    files.mkdir(), checkpoints.mkdir()
    random = np.random.default_rng(0)
    for number in range(12):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED_WHILE_IT_SAVES, files, checkpoints],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout.readline() == ("restored\n" if number else "saved\n")
            time.sleep(random.uniform(0, 0.5))
            process.send_signal(signal.SIGKILL)
        assert not list(files.iterdir())


KILLED = """
import sys, tensorflow as tf
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.tables.table import Table
table = Table(None, 256, "ones", storage_path=sys.argv[1], memory_bytes=4096)
lookup_group([Lookup(table, tf.range(1000, dtype=tf.int64))], True)
print("trained", flush=True)
sys.stdin.read()
"""


def test_a_killed_process_leaves_no_files(disk):
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, disk],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "trained\n"
        assert not list(disk.iterdir())
        process.send_signal(signal.SIGKILL)
    assert not list(disk.iterdir())
