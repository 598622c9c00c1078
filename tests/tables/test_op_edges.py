# SPDX-License-Identifier: Apache-2.0
"""What no layer or optimizer asks of a table's ops, but somebody may."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.runtime.devices import is_on_gpu
from sok_compat.runtime.op_library import ops
from sok_compat.tables import Table
from sok_compat.tables.slots.registry import slot_for
from tests.support.lookups import lookup

DIM = 2
FTRL = {"learning_rate": 0.1, "l1": 0.0, "l2": 0.0, "l2_shrinkage": 0.0}
ADAM = {"step_size": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7}


def filled():
    """(a table of the keys 0 and 1, its slot); rows are ones."""
    table = Table(8, DIM, "ones")
    slot = slot_for(table, "optimizer", "slots", width=2 * DIM)
    lookup(table, tf.constant([0, 1], tf.int64), True)
    return table, slot


def apply_rule(table, slot, rule, hyperparameters, row_ids=(0, 1), rows=None):
    ops.sok_apply_rule(
        rows=[table.handle if rows is None else rows],
        states=[slot.handle],
        tables=[table.table_handle],
        gradients=[tf.ones([len(row_ids), DIM])],
        row_ids=[tf.constant(row_ids, tf.int64)],
        hyperparameters=list(hyperparameters.values()),
        hyperparameter_names=list(hyperparameters),
        rule=rule,
        rows_to_update="given",
        row_ids_are_distinct=[True],
    )


@pytest.mark.parametrize("wrong, message", [
    ({"learning_rate": 0.0}, "'ftrl': learning_rate must be above 0, got 0"),
    ({"learning_rate": float("nan")}, "learning_rate must be above 0"),
    ({"l1": -1.0}, "l1 must be at least 0, got -1"),
    ({"l2": -1.0}, "l2 must be at least 0, got -1"),
    ({"l2_shrinkage": -1.0}, "l2_shrinkage must be at least 0, got -1"),
    ({"l3": 0.0}, "'ftrl' has the hyperparameters learning_rate, l1, l2, l2_shrinkage; got"),
])  # fmt: skip
def test_ftrl_refuses_what_tensorflow_does(wrong, message):
    table, slot = filled()
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        apply_rule(table, slot, "ftrl", {**FTRL, **wrong})
    assert (table.export()[1].numpy() == 1).all()
    assert (slot.read_value().numpy() == 0).all()


def test_hyperparameters_are_scalars():
    table, slot = filled()
    with pytest.raises(tf.errors.InvalidArgumentError, match="hyperparameters must have 0"):
        apply_rule(table, slot, "ftrl", {**FTRL, "l1": tf.ones([3])})


def test_an_unknown_rule_is_an_error():
    table, slot = filled()
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="is not in the list"):
        apply_rule(table, slot, "rms", ADAM)


def test_a_rule_moves_the_rows_of_the_table():
    table, slot = filled()
    with pytest.raises(tf.errors.InvalidArgumentError, match="is a slot of table .*, not its rows"):
        apply_rule(table, slot, "adam", ADAM, rows=slot.handle)


@pytest.mark.parametrize("row_id", [-1, 5])
def test_rows_that_are_not_there(row_id):
    table, slot = filled()
    if is_on_gpu(table):
        pytest.skip("a GPU passes them over")
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"row {row_id}"):
        apply_rule(table, slot, "adam", ADAM, row_ids=[0, row_id])
    assert (table.export()[1].numpy() == 1).all()


def attach(table, name, handle, width=DIM):
    ops.sok_table_attach_slot(
        table.table_handle,
        handle,
        slot_name=name,
        capacity=table.op_capacity,
        width=width,
        initial_value=0.0,
        rows_fill_in_order=True,
    )


def test_a_variable_is_one_slot():
    table, slot = filled()
    for name in ("one", "other"):
        attach(table, name, slot.handle, slot.width)
    apply_rule(table, slot, "adam", ADAM)
    assert (table.export()[1].numpy() < 1).all()


def test_the_rows_are_no_slot():
    table, _ = filled()
    with pytest.raises(tf.errors.InvalidArgumentError, match="its variable is that of the rows"):
        attach(table, "one", table.handle)
    assert (table.export()[1].numpy() == 1).all()


def test_a_slot_wider_than_any_is_refused():
    table = Table(None, DIM)
    with pytest.raises(tf.errors.InvalidArgumentError, match="rows of 2147483648 floats"):
        slot_for(table, "optimizer", "slot", width=1 << 31)


def test_a_table_that_was_not_preset_exports_zeros(graph):
    table = Table(4, DIM, tf.constant_initializer(np.ones([4, DIM])), use_hash_index=False)
    with tf.compat.v1.Session() as session:
        session.run(table._table_initialize(table.handle, False))
        for _ in range(3):  # in memory that was used before
            session.run(tf.random.normal([4, DIM]))
            assert (session.run(table.export())[1] == 0).all()


@pytest.mark.parametrize("initializer", ["random_uniform", "random_normal"])
def test_unknown_keys_that_come_often(initializer):
    table = Table(100, 5, initializer)
    lookup(table, tf.constant([3, 4], tf.int64), True)
    keys = np.random.default_rng(0).integers(0, 9, 500)
    rows = lookup(table, tf.constant(keys), False).numpy()
    one_by_one = {key: lookup(table, tf.constant([key]), False).numpy()[0] for key in set(keys)}
    np.testing.assert_array_equal(rows, [one_by_one[key] for key in keys])
    assert table.num_keys().numpy() == 2


def test_what_was_found_is_of_as_many_keys():
    table, _ = filled()
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="one row id for each of 2 keys, got 1"
    ):
        ops.sok_insert_absent(
            [table.table_handle],
            [tf.constant([3, 4], tf.int64)],
            [tf.constant([-1], tf.int64)],
            [tf.zeros([0, table.dim])],
            rows_are_given=[False],
        )
