# SPDX-License-Identifier: Apache-2.0
"""What is logged of checkpoints that take long."""

import contextlib
import itertools
import logging
import re
import time
import types

import pytest
import tensorflow as tf

import sok_compat
from sok_compat.checkpoint.objects import object_savers
from sok_compat.checkpoint.sessions import savers_of_ranks
from sok_compat.checkpoint.streams import dumps, progress
from sok_compat.checkpoint.streams.stored_tensors import tensors_in_readable
from sok_compat.runtime.settings import CHECKPOINTS_ON_RANK_0
from tests.support.cases.optimizer_cases import STOCK_OPTIMIZERS
from tests.support.processes.subprocess_python import run_python
from tests.support.saves.saved_table import DIM, SavedTable
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1


def moved_bytes():
    return progress.saved.counted_bytes() + progress.restored.counted_bytes()


@pytest.mark.parametrize("bytes_a_look", [2 * 10**9, 0])
def test_a_line_each_so_many_seconds_if_bytes_are_moved(caplog, monkeypatch, bytes_a_look):
    moved = itertools.count(5, bytes_a_look)
    monkeypatch.setattr(progress.saved, "counted_bytes", lambda: next(moved))
    caplog.set_level(logging.INFO, "sok_compat")
    until = time.monotonic() + (60 if bytes_a_look else 0.2)
    with progress.logged("saving /a/b", seconds=0.01):
        while len(caplog.records) < 2 and time.monotonic() < until:
            time.sleep(0.01)
    lines = [record.getMessage() for record in caplog.records]
    if bytes_a_look == 0:
        assert not lines
        return
    assert re.match(r"saving /a/b: 2\.00 GB of tables in \d+ s, ", lines[0])
    assert lines[1].startswith("saving /a/b: 4.00 GB")


def test_lines_tell_the_share_and_the_time_left(caplog, monkeypatch):
    caplog.set_level(logging.INFO, "sok_compat")
    moved = itertools.count(5, 10**9)
    monkeypatch.setattr(progress.saved, "counted_bytes", lambda: next(moved))
    until = time.monotonic() + 60
    with progress.logged("saving /a/b", 2 * 10**9, seconds=0.01):
        while len(caplog.records) < 3 and time.monotonic() < until:
            time.sleep(0.01)
    lines = [record.getMessage() for record in caplog.records]
    speed = r"\d+ MB/s, about \d+ s left$"
    assert re.match(rf"saving /a/b: 50%, 1\.00 of 2\.00 GB of tables, {speed}", lines[0])
    assert re.match(rf"saving /a/b: 100%, 2\.00 of 2\.00 GB of tables, {speed}", lines[1])
    assert re.match(r"saving /a/b: 3\.00 GB of tables in \d+ s, \d+ MB/s$", lines[2])
    assert "about 30 s left" in progress._line(10**9, 4 * 10**9, 10)


@pytest.fixture
def totals(monkeypatch):
    """{what is logged: (bytes that were to be moved, bytes that were)}."""
    found = {}
    logged = progress.logged

    @contextlib.contextmanager
    def noting(what, total_bytes=0):
        before = moved_bytes()
        with logged(what, total_bytes):
            yield
        found[what.split()[0]] = (total_bytes, moved_bytes() - before)

    for module in (savers_of_ranks, object_savers, dumps):
        monkeypatch.setattr(module, "logged", noting)
    return found


def test_totals_of_savers_are_right(graph, tmp_path, totals):
    sok_compat.Init(global_batch_size=4, seed=5)
    table = SavedTable(tmp_path, capacity=1000, optimizer=STOCK_OPTIMIZERS[1])
    saver = tf1.train.Saver()
    with initialized_session() as session:
        session.run(table.step, {table.keys: range(500)})
        path = saver.save(session, f"{tmp_path}/model")
        assert_about_equal(totals["saving"])
        saver.restore(session, path)
        assert_about_equal(totals["restoring"])
    with tf1.Session() as session:  # reads once, as there are no tables yet
        saver.restore(session, path)
        assert_about_equal(totals["restoring"])


def test_a_rank_reads_all_keys_and_its_part_of_the_rest(graph, tmp_path, monkeypatch):
    """On two and four ranks restores read 5 % more than that: their parts are not of one size."""
    sok_compat.Init(global_batch_size=4, seed=5)
    table = SavedTable(tmp_path, capacity=1000, optimizer=STOCK_OPTIMIZERS[1])
    with initialized_session() as session:
        session.run(table.step, {table.keys: range(500)})
        path = tf1.train.Saver().save(session, f"{tmp_path}/model")
    stored = tensors_in_readable(path)
    alone = progress.bytes_to_read(stored, False)
    monkeypatch.setattr(progress, "is_connected", lambda: True)
    monkeypatch.setattr(progress, "current_ranks", lambda: types.SimpleNamespace(size=4))
    keys = 8 * 500
    assert progress.bytes_to_read(stored, False) == pytest.approx(
        keys + (alone - keys) / 4, rel=0.02
    )
    assert tensors_in_readable(f"{tmp_path}/other") == {}


def test_totals_of_dumps_and_objects_are_right(tmp_path, totals):
    sok_compat.init()
    table = sok_compat.DynamicVariable(8, "ones", name="table")
    sok_compat.assign(table, tf.range(500, dtype=tf.int64), tf.ones([500, 8]))
    sok_compat.dump(f"{tmp_path}/dump", table)
    sok_compat.load(f"{tmp_path}/dump", table)
    checkpoint = tf.train.Checkpoint(table=table)
    checkpoint.restore(checkpoint.save(f"{tmp_path}/objects"))
    assert set(totals) == {"dumping", "loading", "saving", "restoring"}
    for pair in totals.values():
        assert_about_equal(pair)


def assert_about_equal(pair):
    expected, moved = pair
    assert expected > 10_000
    assert moved == pytest.approx(expected, rel=0.1)  # there are other variables, and an index


@pytest.mark.parametrize("on_rank_0", ["0", "1"])  # which is the same for one rank
def test_what_savers_move_is_counted(graph, tmp_path, caplog, monkeypatch, on_rank_0):
    monkeypatch.setenv(CHECKPOINTS_ON_RANK_0.name, on_rank_0)
    sok_compat.Init(global_batch_size=4, seed=5)
    table = SavedTable(tmp_path, optimizer=STOCK_OPTIMIZERS[1])
    saver = tf1.train.Saver()
    with initialized_session() as session:
        session.run(table.step, {table.keys: [1, 2, 3]})
        counts = [moved_bytes()]
        with caplog.at_level(logging.INFO, "sok_compat"):
            path = saver.save(session, f"{tmp_path}/model")
            counts.append(moved_bytes())
            saver.restore(session, path)
        counts.append(moved_bytes())
        num_bytes = 3 * (8 + 2 * DIM * 4)  # and the seed
        assert counts[1] - counts[0] in (num_bytes, num_bytes + 8)
        assert counts[2] - counts[1] == 2 * (num_bytes + 8)  # read, then restored
    assert not [each for each in caplog.records if each.name.startswith("sok_compat")]  # short


def test_a_save_goes_on_where_no_thread_can_be_had(monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(progress._thread, "start_new_thread", refuse)
    with progress.logged("saving /a/b") as nothing:
        assert nothing is None


def test_without_address_space_saves_and_restores_raise_and_later_ones_work():
    printed = run_python(
        """
        import resource, tempfile
        import tensorflow as tf
        import sok_compat as sok

        tf1 = tf.compat.v1
        tf1.disable_eager_execution()
        sok.Init(global_batch_size=8, seed=3)
        layer = sok.All2AllDenseEmbedding(1000, 8, 1, 1)
        keys = tf1.placeholder(tf.int64, [None])
        loss, folder = tf.reduce_sum(layer(keys)), tempfile.mkdtemp()
        with sok.OptimizerScope([layer.embedding_variable]):
            train = tf1.train.AdagradOptimizer(0.1).minimize(loss)
        saver, results = tf1.train.Saver(), []
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(train, {keys: range(200)})
            good = saver.save(session, f"{folder}/good")
            pages = int(open("/proc/self/statm").read().split()[0])
            for extra in (0, 1 << 20, 4 << 20):
                limit = pages * resource.getpagesize() + extra
                resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
                for call in (
                    lambda: saver.save(session, f"{folder}/tried"),
                    lambda: saver.restore(session, good),
                ):
                    try:
                        call()
                        result = "works"
                    except (MemoryError, tf.errors.ResourceExhaustedError):
                        result = "refused"
                    results.append(result)
                resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
            saver.restore(session, saver.save(session, f"{folder}/good"))
        print(" ".join(results))
        """
    )
    assert set(printed.splitlines()[-1].split()) <= {"works", "refused"}  # no other error, no end
