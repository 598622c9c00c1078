# SPDX-License-Identifier: Apache-2.0
"""Training of tables without sok.Init equals training of plain TensorFlow variables."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.tables import Table
from sok_compat.tables.rows.row_generations import rows_of_gradient
from sok_compat.tables.slots.registry import slot_for
from sok_compat.training.fused_adam import adam_step_size, apply_adam, state_of
from sok_compat.training.update_scope import UpdateScope
from tests.support.assertions import assert_close
from tests.support.lookups import lookup_bags

NUM_KEYS, DIM = 24, 3
STEPS = 6


def batches():
    """[(keys, row splits, targets)] of random bags, some of them empty."""
    rng = np.random.default_rng(5)
    for _ in range(STEPS):
        row_splits = np.concatenate([[0], np.cumsum(rng.integers(0, 4, 5))])
        keys = rng.integers(0, NUM_KEYS, row_splits[-1])
        yield keys, row_splits, rng.normal(size=[5, DIM]).astype(np.float32)


def plain_lookup(variable, keys, row_splits):
    bags = tf.RaggedTensor.from_row_splits(keys, row_splits)
    rows = tf.nn.embedding_lookup(variable, bags.flat_values)
    return tf.math.unsorted_segment_sum(rows, bags.value_rowids(), bags.nrows())


def trained(run, variable, lookup, optimizer):
    """Losses of the steps, by a stock optimizer."""

    def compute(keys, row_splits, targets):
        def loss():
            return tf.reduce_sum((lookup(variable, keys, row_splits) - targets) ** 2)

        return run.apply(optimizer, loss, variable)

    step = run.repeated(compute)
    return [step(*batch) for batch in batches()]


def table_lookup(table, keys, row_splits):
    return lookup_bags(table, keys, row_splits, "sum", True)


def rows_by_key(run, table):
    keys, rows = run(table.export)
    return rows[np.argsort(keys)], np.sort(keys)


def start(run):
    """(a table, the first rows of all its keys)."""
    table = Table(NUM_KEYS, DIM, "random_normal", name="table")
    every = np.arange(NUM_KEYS + 1)
    first = run(lambda splits: lookup_bags(table, splits[:-1], splits, "sum", False), every)
    return table, first


def in_scope(run, table, losses):
    with UpdateScope([table]):
        return losses()


@pytest.mark.parametrize("has_scope", [False, True], ids=["", "scope"])
@pytest.mark.parametrize("name", ["SGD", "Adagrad", "Adam"])
def test_stock_optimizers(run, name, has_scope):
    table, first = start(run)
    make = getattr(keras.optimizers.legacy, name)

    def losses():
        return trained(run, table, table_lookup, make(0.1))

    actual = in_scope(run, table, losses) if has_scope else losses()
    plain = tf.Variable(first)
    assert_close(actual, trained(run, plain, plain_lookup, make(0.1)))
    rows, keys = rows_by_key(run, table)
    assert_close(rows, run(plain.read_value)[keys])
    assert not np.allclose(rows, first[keys])


def test_fused_adam(run):
    table, first = start(run)
    optimizer = object.__new__(type("Optimizer", (), {}))
    powers = [np.float32(1.0)]

    def compute(keys, row_splits, targets, beta1_power, beta2_power):
        def loss():
            return tf.reduce_sum((table_lookup(table, keys, row_splits) - targets) ** 2)

        before, slices = run.gradient(loss, table)
        slices = rows_of_gradient(table, slices)
        update = apply_adam(
            table,
            state_of(table, optimizer),
            slices.values,
            slices.indices,
            step_size=adam_step_size(0.1, tf.squeeze(beta1_power), tf.squeeze(beta2_power)),
            beta1=0.9,
            beta2=0.999,
            epsilon=1e-7,
            is_lazy=False,
        )
        with tf.control_dependencies([] if update is None else [update]):
            return tf.identity(before)

    step = run.repeated(compute)
    powers = [(np.float32([0.9**n]), np.float32([0.999**n])) for n in range(1, STEPS + 1)]
    actual = [step(*batch, *power) for batch, power in zip(batches(), powers)]
    plain = tf.Variable(first)
    adam = keras.optimizers.legacy.Adam(0.1)
    assert_close(actual, trained(run, plain, plain_lookup, adam))
    rows, keys = rows_by_key(run, table)
    assert_close(rows, run(plain.read_value)[keys])
    assert slot_for(table, optimizer, "Adam", width=2 * DIM) is state_of(table, optimizer)
