# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that do not fit a table leave it as it was; savers that would save half raise."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat.checkpoint.saver.tf_saver import save_tables_in_checkpoints
from tests.support.cases.optimizer_cases import ALL_OPTIMIZERS, STOCK_OPTIMIZERS, OptimizerCase
from tests.support.saves.saved_table import DIM, SavedTable, assert_rows_equal
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
InvalidArgument = tf.errors.InvalidArgumentError
ADAGRAD = STOCK_OPTIMIZERS[1]
KEYS, ROWS, SLOT = (f"EmbeddingVariable/{part}" for part in ("keys", "rows", "Adagrad"))


def tensors(keys, width=DIM, slot_rows=None):
    count = len(keys)
    return {
        KEYS: np.array(keys, np.int64),
        ROWS: np.ones([count, width], np.float32),
        SLOT: np.ones([count if slot_rows is None else slot_rows, DIM], np.float32),
    }


def write(path, values):
    with tf.Graph().as_default(), tf1.Session() as session:
        session.run(
            tf.raw_ops.SaveV2(
                prefix=path,
                tensor_names=list(values),
                shape_and_slices=[""] * len(values),
                tensors=[tf.constant(value) for value in values.values()],
            )
        )


# What the checkpoint holds, what is raised, what the message says; and the table's options.
BAD = {
    "too-many-keys": (tensors(range(17)), tf.errors.ResourceExhaustedError, "17 keys.*16", {}),
    "repeated-key": (tensors([1, 2, 1]), InvalidArgument, "key 1 appears twice", {}),
    "other-dim": (tensors([1, 2], DIM + 2), InvalidArgument, "rows.*2,5.*2,3", {}),
    "rows-of-a-slot": (tensors([1, 2], slot_rows=3), InvalidArgument, "Adagrad.*3,3.*2,3", {}),
    "flat-keys": ({**tensors([1, 2]), KEYS: np.array([[1, 2]])}, InvalidArgument, "keys", {}),
    "no-slot": (
        {name: value for name, value in tensors([1]).items() if name != SLOT},
        tf.errors.NotFoundError,
        f"no tensor {SLOT}.*start slots afresh.*assign_from",
        {},
    ),
    "no-table": ({"x": np.ones(3)}, tf.errors.NotFoundError, "EmbeddingVariable", {}),
    "key-dtype": (
        {**tensors([1]), KEYS: np.array([1], np.float32)},
        InvalidArgument,
        "keys must be int64 or int32",
        {},
    ),
    "wide-key": (tensors([1, 2**32]), InvalidArgument, "uint32", dict(key_dtype="uint32")),
    "negative-key": (tensors([1, -1]), InvalidArgument, "key -1 ", dict(use_hashtable=False)),
    "key-too-large": (tensors([16]), InvalidArgument, "key 16 ", dict(use_hashtable=False)),
}


@pytest.mark.parametrize("values, error, message, options", BAD.values(), ids=BAD)
def test_checkpoint_that_does_not_fit(make_table, tmp_path, values, error, message, options):
    saved = make_table(optimizer=ADAGRAD, **options)
    slot = saved.table.slots[0]
    saver = tf1.train.Saver()
    path = str(tmp_path / "model")
    write(path, values)
    with initialized_session() as session:
        session.run(saved.step, {saved.keys: [5, 3]})
        before, slot_before = saved.rows(session), session.run(slot)
        with pytest.raises(error, match=message):
            saver.restore(session, path)
        assert_rows_equal(saved.rows(session), before)
        np.testing.assert_array_equal(session.run(slot), slot_before)
        session.run(saved.step, {saved.keys: [5, 6]})
        write(path, tensors([7, 2]))
        saver.restore(session, path)
        assert session.run(saved.read, {saved.keys: [2]}).tolist() == [[1.0] * DIM]


def test_before_the_initializer_has_run(make_table, tmp_path):
    make_table(optimizer=ADAGRAD)
    saver = tf1.train.Saver()
    with (
        tf1.Session() as session,
        pytest.raises(
            tf.errors.FailedPreconditionError,
            match="EmbeddingVariable.*global_variables_initializer",
        ),
    ):
        saver.save(session, str(tmp_path / "model"))


def test_slots_made_after_the_saver(make_table, tmp_path):
    saved = make_table(optimizer=STOCK_OPTIMIZERS[0])
    saver = tf1.train.Saver()
    with sok_compat.OptimizerScope([saved.table]):
        gradients = tf.gradients(tf.reduce_sum(saved.output), [saved.table])
        tf1.train.AdagradOptimizer(0.1).apply_gradients(zip(gradients, [saved.table]))
    with (
        initialized_session() as session,
        pytest.raises(
            tf.errors.FailedPreconditionError, match="1 optimizer slots.*0; create the tf.train"
        ),
    ):
        saver.save(session, str(tmp_path / "model"))


class WithRowsById(tf1.train.GradientDescentOptimizer):
    """Makes an ordinary variable for each table, by make(optimizer, table)."""

    def __init__(self, make):
        super().__init__(0.1)
        self._make = make

    def _create_slots(self, var_list):
        for variable in var_list:
            self._make(self, variable)


@pytest.mark.parametrize("make", [
    lambda optimizer, table: optimizer._get_or_make_slot(table, 0.5 * table, "x", "Slow"),
    lambda optimizer, table: optimizer._get_or_make_slot_with_initializer(
        table, tf1.zeros_initializer(), tf.TensorShape([table.shape[0], 1]), tf.float32, "x", "Slow"
    ),
    lambda optimizer, table: tf1.get_variable(
        f"{table.op.name}/Slow", table.shape, initializer=tf1.zeros_initializer(), trainable=False
    ),
], ids=["of its rows", "a number a row", "without a slot"])  # fmt: skip
def test_variables_by_row_id_are_refused(make_table, make):
    make_table(optimizer=OptimizerCase("", lambda: WithRowsById(make), needs_scope=False))
    with pytest.raises(NotImplementedError, match="EmbeddingVariable/Slow:0.*not know its keys"):
        tf1.train.Saver()


def test_savers_without_tables_are_as_ever(make_table, tmp_path):
    make_table(optimizer=ALL_OPTIMIZERS[0])
    dense = tf1.get_variable("dense", [2])
    saver = tf1.train.Saver([dense])
    with initialized_session() as session:
        path = saver.save(session, str(tmp_path / "model"))
    assert tf.train.list_variables(path) == [("dense", [2])]
    with pytest.raises(TypeError, match="should be passed in a dict or a list"):
        tf1.train.Saver(3)


def test_savers_in_eager_mode_are_as_ever(tmp_path):
    save_tables_in_checkpoints()
    with tf.init_scope():
        assert tf.executing_eagerly()
        variable = tf.Variable([1.0, 2.0])
        saver = tf1.train.Saver({"dense": variable})
        path = saver.save(None, str(tmp_path / "model"))
        variable.assign([0.0, 0.0])
        saver.restore(None, path)
        assert variable.numpy().tolist() == [1.0, 2.0]


def said_by_sok(caplog):
    return [each.getMessage() for each in caplog.records if each.name.startswith("sok_compat")]


def test_tables_that_the_graph_does_not_have_are_named(graph, tmp_path, caplog):
    path = f"{tmp_path}/model"
    row = np.ones([1, 2], np.float32)
    others = {"a/keys": np.array([3]), "a/rows": row}
    others |= {"b/part_0-keys": np.array([4]), "b/part_0-values": row}
    write(path, {**tensors([1]), **others})
    sok_compat.Init(global_batch_size=4)
    table = SavedTable(tmp_path, optimizer=ADAGRAD)
    saver = tf1.train.Saver()
    with initialized_session() as session:
        saver.restore(session, path)
        assert table.rows(session).keys() == {1}
    (line,) = said_by_sok(caplog)
    assert line == f"tables of {path} that this graph does not have are not restored: a, b/part_0"
    caplog.clear()
    write(path, tensors([1]))
    with initialized_session() as session:
        saver.restore(session, path)
    assert not said_by_sok(caplog)
