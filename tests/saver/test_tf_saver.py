# SPDX-License-Identifier: Apache-2.0
"""tf.train.Saver on tables: all that is in them, slots too, comes back."""

import os
import threading

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from tests.saver.files.test_dump_and_restore import KEYS
from tests.support.cases.optimizer_cases import (
    EACH_ON_SOME_KIND,
    LAZY_ADAM,
    SOK_ADAM,
    STOCK_OPTIMIZERS,
)
from tests.support.saves.saved_table import DIM, SavedTable, assert_rows_equal, random_rows
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
ADAGRAD = STOCK_OPTIMIZERS[1]
by_optimizer_and_kind = pytest.mark.parametrize(
    "optimizer, use_hashtable", EACH_ON_SOME_KIND, ids=str
)
kinds = pytest.mark.parametrize("use_hashtable", [True, False], ids=["hash", "direct"])


@pytest.fixture
def in_new_graph(tmp_path):
    """Calls use(session, saver, SavedTable, path of the checkpoint) in a graph of its own."""

    def call(use, is_initialized=True, var_list=None, seed=7, **options):
        with tf.Graph().as_default():
            sok_compat.Init(global_batch_size=8, seed=seed)
            saved = SavedTable(tmp_path, **options)
            init = tf1.global_variables_initializer()
            saver = tf1.train.Saver(var_list(saved) if var_list else None)
            with tf1.Session() as session:
                if is_initialized:
                    session.run(init)
                return use(session, saver, saved, str(tmp_path / "model"))

    return call


def train(session, saved, batches):
    for keys in batches:
        session.run(saved.step, {saved.keys: keys})


def train_and_save(*batches):
    """A use for in_new_graph; returns the table's rows."""

    def use(session, saver, saved, path):
        train(session, saved, batches)
        assert saver.save(session, path) == path
        return saved.rows(session)

    return use


def restore(session, saver, saved, path):
    saver.restore(session, path)
    return saved.rows(session)


FIRST, LAST = ([3, 1, 3], [4, 1], [9, 8, 3]), ([1, 8], [3, 11], [12, 1])


@by_optimizer_and_kind
def test_training_goes_on_as_if_it_had_not_stopped(in_new_graph, optimizer, use_hashtable):
    """In a new graph: rows, slots, powers of beta and steps are as they were."""
    options = dict(optimizer=optimizer, use_hashtable=use_hashtable)

    def go_on(session, saver, saved, path):
        restore(session, saver, saved, path)
        train(session, saved, LAST)
        return saved.rows(session)

    def all_at_once(session, saver, saved, path):
        train(session, saved, FIRST + LAST)
        return saved.rows(session)

    in_new_graph(train_and_save(*FIRST), **options)
    resumed = in_new_graph(go_on, is_initialized=False, **options)
    assert_rows_equal(resumed, in_new_graph(all_at_once, **options))


@pytest.mark.parametrize("optimizer", [ADAGRAD, SOK_ADAM, LAZY_ADAM], ids=str)
@kinds
def test_used_table_forgets_what_it_held(in_new_graph, optimizer, use_hashtable):
    options = dict(optimizer=optimizer, use_hashtable=use_hashtable)

    def restore_into_used(session, saver, saved, path):
        first = session.run(saved.read, {saved.keys: [0]})
        train(session, saved, [[0, 3, 14], [13, 0]])
        rows = restore(session, saver, saved, path)
        np.testing.assert_array_equal(session.run(saved.read, {saved.keys: [0]}), first)
        train(session, saved, LAST)
        return rows, saved.rows(session)

    rows = in_new_graph(train_and_save(*FIRST), **options)
    restored, trained = in_new_graph(restore_into_used, **options)
    assert list(restored) == list(rows)  # also in the same order
    assert_rows_equal(restored, rows)
    expected = in_new_graph(
        lambda session, saver, saved, path: (
            train(session, saved, FIRST + LAST),
            saved.rows(session),
        )[1],
        **options,
    )
    assert_rows_equal(trained, expected)


@pytest.mark.parametrize("key_dtype", KEYS)
def test_what_is_in_the_checkpoint(in_new_graph, tmp_path, key_dtype):
    keys = KEYS[key_dtype]
    options = dict(optimizer=ADAGRAD, key_dtype=key_dtype, capacity=2**33)
    rows = in_new_graph(train_and_save(keys), **options)
    checkpoint = tf.train.load_checkpoint(str(tmp_path / "model"))
    shapes = checkpoint.get_variable_to_shape_map()
    assert shapes == {
        "EmbeddingVariable/keys": [len(keys)],
        "EmbeddingVariable/seed": [],
        "EmbeddingVariable/rows": [len(keys), DIM],
        "EmbeddingVariable/Adagrad": [len(keys), DIM],
    }
    assert checkpoint.get_tensor("EmbeddingVariable/keys").tolist() == keys
    np.testing.assert_array_equal(
        checkpoint.get_tensor("EmbeddingVariable/rows"), [rows[key] for key in keys]
    )
    assert np.all(checkpoint.get_tensor("EmbeddingVariable/Adagrad") > 0.1)
    assert_rows_equal(in_new_graph(restore, is_initialized=False, **options), rows)


@kinds
def test_empty_table(in_new_graph, use_hashtable):
    options = dict(optimizer=ADAGRAD, use_hashtable=use_hashtable)

    def into_used(session, saver, saved, path):
        train(session, saved, [[1, 2]])
        saver.restore(session, path)
        return session.run(saved.table.num_keys())

    assert in_new_graph(train_and_save(), **options) is not None
    assert in_new_graph(into_used, **options) == 0


@kinds
@pytest.mark.parametrize("initializer", ["preset", "evaluated"])
def test_initializers_that_are_run(in_new_graph, use_hashtable, initializer):
    """New keys after a restore into a session without initialization get what they are to get."""
    preset = np.arange(16 * DIM, dtype=np.float32).reshape(16, DIM)
    options = dict(
        use_hashtable=use_hashtable,
        initializer=tf1.constant_initializer(preset)
        if initializer == "preset"
        else lambda shape, dtype=None: tf.fill(shape, tf.constant(7.0, dtype)),
    )

    def go_on(session, saver, saved, path):
        restore(session, saver, saved, path)
        assert session.run(saved.table.is_initialized())
        session.run(saved.output, {saved.keys: [5]})
        return saved.rows(session)

    rows = in_new_graph(train_and_save([1, 4]), **options)
    restored = in_new_graph(go_on, is_initialized=False, **options)
    of_five = preset[2 if use_hashtable else 5] if initializer == "preset" else [7.0] * DIM
    np.testing.assert_array_equal(restored.pop(5), of_five)
    kept = {key: rows[key] for key in ([1, 4] if use_hashtable else range(16)) if key != 5}
    assert_rows_equal(restored, kept)


VAR_LISTS = {
    "tables": lambda saved: [saved.table],
    "slots": lambda saved: saved.table.slots,
    "all": lambda saved: tf1.global_variables(),
    "a tuple": lambda saved: (saved.table.slots[0], saved.table),
    "a dict by name": lambda saved: {v.op.name: v for v in tf1.global_variables()},
    "a dict of the table": lambda saved: {"EmbeddingVariable": saved.table},
}


@pytest.mark.parametrize("restoring", VAR_LISTS)
@pytest.mark.parametrize("saving", VAR_LISTS)
def test_a_table_and_its_slots_are_saved_together(in_new_graph, tmp_path, saving, restoring):
    """Whichever of them the saver is given."""
    options = dict(optimizer=ADAGRAD)
    rows = in_new_graph(train_and_save(*FIRST), var_list=VAR_LISTS[saving], **options)
    names = {name for name, _ in tf.train.list_variables(str(tmp_path / "model"))}
    assert names == {f"EmbeddingVariable/{part}" for part in ("keys", "rows", "seed", "Adagrad")}
    restored = in_new_graph(restore, var_list=VAR_LISTS[restoring], **options)
    assert_rows_equal(restored, rows)


def test_other_names_in_the_checkpoint(in_new_graph, tmp_path):
    def renamed(saved):
        return {"mine": saved.table, "my/slot": saved.table.slots[0]}

    options = dict(optimizer=ADAGRAD, var_list=renamed)
    rows = in_new_graph(train_and_save(*FIRST), **options)
    names = {name for name, _ in tf.train.list_variables(str(tmp_path / "model"))}
    assert names == {"mine/keys", "mine/rows", "mine/seed", "my/slot"}
    assert_rows_equal(in_new_graph(restore, **options), rows)


def test_a_graph_without_the_optimizer_reads_the_table(in_new_graph):
    rows = in_new_graph(train_and_save(*FIRST), optimizer=ADAGRAD)
    sgd = STOCK_OPTIMIZERS[0]
    assert_rows_equal(in_new_graph(restore, is_initialized=False, optimizer=sgd), rows)


@pytest.mark.parametrize("sharded", [True, False])
def test_tables_beside_dense_variables(tmp_path, sharded):
    """Several of each, also with a sharded saver; max_to_keep deletes all files of the oldest."""
    with tf.Graph().as_default():
        sok_compat.Init(global_batch_size=8)
        tables = [SavedTable(tmp_path, optimizer=ADAGRAD, use_hashtable=use) for use in (1, 0)]
        dense = [tf1.get_variable("a", [3]), tf1.Variable([1, 2], use_resource=False, name="b")]
        saver = tf1.train.Saver(max_to_keep=2, sharded=sharded)
        with initialized_session() as session:
            seen = []
            for step in range(4):
                for saved in tables:
                    session.run(saved.step, {saved.keys: [step, 5]})
                saver.save(session, str(tmp_path / "model"), global_step=step)
                seen.append(([saved.rows(session) for saved in tables], session.run(dense)))
            assert not [name for name in os.listdir(tmp_path) if "-0" in name.split(".")[0]]
            assert len(saver.last_checkpoints) == 2
            for path, (rows, values) in zip(saver.last_checkpoints, seen[2:]):
                session.run(tf1.global_variables_initializer())
                saver.restore(session, path)
                for saved, expected in zip(tables, rows):
                    assert_rows_equal(saved.rows(session), expected)
                for actual, expected in zip(session.run(dense), values):
                    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("optimizer", [ADAGRAD, SOK_ADAM], ids=str)
@kinds
def test_another_capacity(in_new_graph, optimizer, use_hashtable):
    options = dict(optimizer=optimizer, use_hashtable=use_hashtable)
    rows = in_new_graph(train_and_save(*FIRST), capacity=16, **options)
    wider = in_new_graph(restore, capacity=200, is_initialized=False, **options)
    assert_rows_equal(
        {key: wider[key] for key in (3, 1, 4, 9, 8)}, {k: rows[k] for k in (3, 1, 4, 9, 8)}
    )


def test_millions_of_keys(in_new_graph):
    """More than one part of those that the table takes at once; the capacity is never allocated."""
    count = 2**20 + 2**18
    keys = np.random.default_rng(1).permutation(count) * 2**40 - 5

    def use(session, saver, saved, path):
        session.run(saved.output, {saved.keys: keys})
        saver.save(session, path)
        train(session, saved, [[1, 2]])
        saver.restore(session, path)
        return session.run(saved.exported)

    kept, rows = in_new_graph(use, optimizer=LAZY_ADAM, capacity=2**32)
    np.testing.assert_array_equal(kept, keys)
    assert rows.shape == (count, DIM) and np.all(rows.any(axis=1))


def test_saving_while_steps_run(in_new_graph, tmp_path):
    """Each checkpoint is whole: a row and a slot for each key, none of them unfinished."""

    def use(session, saver, saved, path):
        random = np.random.default_rng(3)
        batches = [random.integers(0, 20000, 500) for _ in range(100)]
        training = threading.Thread(target=train, args=(session, saved, batches))
        training.start()
        paths = [saver.save(session, path, global_step=step) for step in range(4)]
        training.join()
        return [tf.train.load_checkpoint(path) for path in paths]

    options = dict(optimizer=ADAGRAD, capacity=20000, initializer="ones")
    for checkpoint in in_new_graph(use, **options):
        keys, rows, slots = (
            checkpoint.get_tensor(f"EmbeddingVariable/{part}")
            for part in ("keys", "rows", "Adagrad")
        )
        assert len(set(keys)) == len(keys) == len(rows) == len(slots)
        assert np.all(rows > 0) and np.all(slots >= np.float32(0.1))


def test_checkpoint_written_by_hand(in_new_graph, tmp_path):
    """The names are a format: keys and rows from elsewhere come in by them."""
    rows = random_rows([5, -7, 2**62])
    with tf.Graph().as_default(), tf1.Session() as session:
        values = {
            "EmbeddingVariable/keys": tf.constant(list(rows), tf.int64),
            "EmbeddingVariable/rows": tf.constant(np.array(list(rows.values()))),
        }
        session.run(
            tf.raw_ops.SaveV2(
                prefix=str(tmp_path / "model"),
                tensor_names=list(values),
                shape_and_slices=[""] * 2,
                tensors=list(values.values()),
            )
        )
    assert_rows_equal(in_new_graph(restore, optimizer=STOCK_OPTIMIZERS[0]), rows)
