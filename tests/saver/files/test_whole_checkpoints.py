# SPDX-License-Identifier: Apache-2.0
"""A tf.train.Saver with tables makes a checkpoint whole, or not at all."""

import os
import resource
import signal
import subprocess
import sys
from concurrent import futures

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat.checkpoint import assign_rows, save_tables_in_checkpoints
from sok_compat.runtime.op_library import ops
from sok_compat.tables import Table, slot_for
from tests.support.cases.optimizer_cases import STOCK_OPTIMIZERS
from tests.support.saves.killed_saves import NumberedTable, saved_number
from tests.support.saves.saved_table import SavedTable, assert_rows_equal
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
ADAGRAD = STOCK_OPTIMIZERS[1]


def temporary_folders(folder):
    return [name for name in os.listdir(folder) if "_temp_" in name]


@pytest.mark.parametrize("times", [4, pytest.param(15, marks=pytest.mark.thorough)])
def test_processes_that_are_killed_while_they_save(graph, tmp_path, times):
    """At any moment: the newest checkpoint is whole. Later saves clean up."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.saves.killed_saves", tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            for _ in range(times):
                process.stdin.write("next\n")
                process.stdin.flush()
                assert process.stdout.readline() == "killed\n"
                path = tf.train.latest_checkpoint(str(tmp_path))
                assert saved_number(path) // 2 == int(path.rpartition("-")[2])
        finally:
            process.kill()
    numbered = NumberedTable()
    with initialized_session() as session:
        numbered.fill(session, 3)
        numbered.saver.save(session, str(tmp_path / "model"))
        assert not temporary_folders(tmp_path)
        assert saved_number(str(tmp_path / "model")) == 3


@pytest.fixture
def saved(make_table, tmp_path):
    """(a table with a slot, its saver, a session, the path of its checkpoint, {key: row} there)"""
    table = make_table(optimizer=ADAGRAD)
    saver = tf1.train.Saver()
    with initialized_session() as session:
        session.run(table.step, {table.keys: [5, 3, 8]})
        path = saver.save(session, str(tmp_path / "model"), write_meta_graph=False)
        rows = table.rows(session)
        session.run(table.step, {table.keys: [5, 9]})
        yield table, saver, session, path, rows


def test_a_checkpoint_in_the_place_of_one(saved, tmp_path):
    """Its files have other names, until those of the first are gone."""
    table, saver, session, path, _ = saved
    for num_files in (2, 1, 2):
        saver.save(session, path, write_meta_graph=False)
        rows = table.rows(session)
        names = sorted(name for name in os.listdir(tmp_path) if name != "checkpoint")
        data = [f"model.data-{i:05}-of-{num_files:05}" for i in range(num_files)]
        assert names == [*data, "model.index"]
        session.run(table.step, {table.keys: [5, 9]})
        saver.restore(session, path)
        assert_rows_equal(table.rows(session), rows)


def test_a_disk_that_is_full(saved, tmp_path):
    """As far as a process may write: an error that names the file, and the first checkpoint."""
    table, saver, session, path, rows = saved
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40, limits[1]))
        with pytest.raises(tf.errors.OpError, match="model_temp_.*part-0") as error:
            saver.save(session, path, write_meta_graph=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert isinstance(error.value, tf.errors.ResourceExhaustedError)
    assert not temporary_folders(tmp_path)
    saver.restore(session, path)
    assert_rows_equal(table.rows(session), rows)


def test_a_folder_that_is_a_file(saved, tmp_path):
    _, saver, session, path, _ = saved
    with pytest.raises((tf.errors.OpError, ValueError), match="model.index"):
        saver.save(session, f"{path}.index/model", write_meta_graph=False)


def flip(path, where=0.5):
    data = bytearray(path.read_bytes())
    data[int(len(data) * where)] ^= 1
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:-5])


DATA = "model.data-00000-of-00001"
DAMAGES = {
    "flipped": (lambda folder: flip(folder / DATA), tf.errors.DataLossError, DATA),
    "cut": (lambda folder: cut(folder / DATA), tf.errors.DataLossError, DATA),
    "gone": (lambda folder: (folder / DATA).unlink(), tf.errors.NotFoundError, DATA),
    "flipped index": (lambda folder: flip(folder / "model.index"), tf.errors.OpError, "model"),
}


@pytest.mark.parametrize("damage, error, message", DAMAGES.values(), ids=DAMAGES)
def test_files_that_are_not_as_they_were_written(saved, tmp_path, damage, error, message):
    table, saver, session, path, _ = saved
    before, slot = table.rows(session), session.run(table.table.slots[0])
    damage(tmp_path)
    with pytest.raises(error, match=message):
        saver.restore(session, path)
    assert_rows_equal(table.rows(session), before)
    np.testing.assert_array_equal(session.run(table.table.slots[0]), slot)


NUM_KEYS, WIDTH = 90_000, 64  # with the slot three blocks of what is read at a time


@pytest.fixture
def wide(graph, tmp_path):
    """(a table that takes many blocks, a session, a saver, its path, [keys, rows, slot] there)"""
    table = Table(None, WIDTH, name="wide")
    slot = slot_for(table, "optimizer", "slot", width=WIDTH, fill=0.5)
    save_tables_in_checkpoints()
    saver = tf1.train.Saver()
    rng = np.random.default_rng(0)
    keys = rng.permutation(10 * NUM_KEYS)[:NUM_KEYS].astype(np.int64)
    rows = rng.random((NUM_KEYS, WIDTH), np.float32)
    with initialized_session() as session:
        session.run(assign_rows(table, keys, rows))
        every_row = tf.range(NUM_KEYS, dtype=tf.int64)
        session.run(tf.raw_ops.ResourceScatterUpdate(
            resource=slot.handle, indices=every_row, updates=-rows
        ))  # fmt: skip
        path = saver.save(session, str(tmp_path / "model"), write_meta_graph=False)
        change = tf.raw_ops.ResourceScatterUpdate(
            resource=table.handle, indices=every_row, updates=tf.zeros([NUM_KEYS, WIDTH])
        )
        exported = table.export()
        contents = [exported[0], exported[1], tf.gather(slot, every_row)]

        session.run(change)
        yield session, saver, path, contents, (keys, rows, -rows)


def test_a_table_of_many_blocks(wide):
    """Rows and slots are read into their places by threads, block by block."""
    session, saver, path, contents, saved = wide
    saver.restore(session, path)
    for actual, expected in zip(session.run(contents), saved):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("where", [0.1, 0.5, 0.9])
def test_a_flipped_bit_in_one_of_many_blocks(wide, tmp_path, where):
    session, saver, path, contents, (keys, _, slot) = wide
    flip(tmp_path / DATA, where)
    with pytest.raises(tf.errors.DataLossError, match=f"{DATA}.* is not as it was written"):
        saver.restore(session, path)
    restored_keys, restored_rows, restored_slot = session.run(contents)
    np.testing.assert_array_equal(restored_keys, keys)
    assert not restored_rows.any()
    np.testing.assert_array_equal(restored_slot, slot)


def test_the_seed_comes_with_the_table(tmp_path):
    """Keys that come after the restore start as they would have, whatever the script's seed."""

    def run(seed, use):
        with tf.Graph().as_default():
            sok_compat.Init(global_batch_size=8, seed=seed)
            table = SavedTable(tmp_path)
            saver = tf1.train.Saver()
            with initialized_session() as session:
                use(saver, session, str(tmp_path / "model"))
                session.run(table.output, {table.keys: [4, 7]})
                return table.rows(session)

    saved = run(1, lambda saver, session, path: saver.save(session, path))
    assert_rows_equal(run(2, lambda saver, session, path: saver.restore(session, path)), saved)


def test_steps_are_in_a_checkpoint_wholly_or_not_at_all(graph, tmp_path):
    """Each adds 1 to all rows, in TensorFlow's own op, which takes no lock of the table."""
    numbered = NumberedTable()
    increment = tf.raw_ops.ResourceScatterAdd(
        resource=numbered.table.handle, indices=tf.range(3000), updates=tf.ones([3000, 8])
    )
    with initialized_session() as session, futures.ThreadPoolExecutor() as pool:
        numbered.fill(session, 0)
        done = []

        def train():
            while not done:
                session.run(increment)

        training = pool.submit(train)
        try:
            for step in range(5):
                path = numbered.saver.save(session, str(tmp_path / "model"), global_step=step)
                rows = tf.train.load_variable(path, "numbered/rows")
                assert np.all(rows == rows[0, 0])
        finally:
            done.append(True)
        training.result()


def test_rows_and_slots_in_a_checkpoint_are_of_the_same_step(make_table, tmp_path):
    """Of an optimizer whose steps run beside: the slot says how many, and the row what they did."""
    table = make_table(capacity=2000, optimizer=ADAGRAD, initializer="ones")
    keys = np.arange(2000)
    saver = tf1.train.Saver(max_to_keep=20)
    shown = [tf.gather(table.table.slots[0], [0]), table.exported[1][:1]]
    with initialized_session() as session, futures.ThreadPoolExecutor() as pool:
        done, seen = [], set()  # (slot, row) after each step; all keys have the same ones

        def train():
            while not done:
                session.run(table.step, {table.keys: keys})
                slots, rows = session.run(shown)
                seen.add((*slots[0].tolist(), *rows[0].tolist()))

        training = pool.submit(train)
        try:
            paths = [
                saver.save(session, str(tmp_path / "model"), global_step=step) for step in range(8)
            ]
        finally:
            done.append(True)
        training.result()
    for path in paths:
        reader = tf.train.load_checkpoint(path)
        rows, slots = (
            reader.get_tensor(f"EmbeddingVariable/{part}") for part in ("rows", "Adagrad")
        )
        assert len(rows) in (0, len(keys))
        pairs = np.unique(np.concatenate([slots, rows], 1), axis=0)
        assert len(pairs) <= 1 and seen.issuperset(map(tuple, pairs.tolist()))


def test_a_save_that_a_later_one_has_overtaken(tmp_path):
    """Its rows are older than those of the files, which stay."""
    path = str(tmp_path / "model")

    def begun(value):
        steps = ops.sok_hold_checkpoint_barrier([], most_seconds=60)
        return ops.sok_begin_checkpoint(
            path, [value], [], [], steps, names=["x"], slices=[""], num_ranks=1
        )

    older, newer, newest = map(begun, (1.0, 2.0, 3.0))
    ops.sok_commit_checkpoint(newer, [])
    with pytest.raises(tf.errors.FailedPreconditionError, match="began later and has newer rows"):
        ops.sok_commit_checkpoint(older, [])
    assert tf.train.load_checkpoint(path).get_tensor("x") == 2.0
    ops.sok_commit_checkpoint(newest, [])
    del older, newer, newest
    assert tf.train.load_checkpoint(path).get_tensor("x") == 3.0
    assert not temporary_folders(tmp_path)
