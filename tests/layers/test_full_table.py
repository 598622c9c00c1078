# SPDX-License-Identifier: Apache-2.0
"""A full table refuses new keys, says so, and goes on working with those it holds."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from tests.support.cases.layer_cases import LayerCase
from tests.support.cases.optimizer_cases import COMMON_OPTIMIZERS
from tests.support.sessions import initialized_session

CAPACITY = 4


class KnownToNobody:
    """An initializer that sok_compat evaluates for new rows."""

    def __call__(self, shape, dtype=None):
        return tf.fill(shape, 0.25)


@pytest.fixture(params=[None, KnownToNobody()], ids=["default", "evaluated"])
def initializer(request):
    return request.param


def make_training(optimizer, initializer=None):
    """(keys placeholder, output, training op, variable) of one table of CAPACITY rows."""
    case = LayerCase("dynamic", True, "int64")
    layer, keys = case.make_layer(CAPACITY, embedding_initializer=initializer), case.placeholder()
    table, output = layer.embedding_variable, layer(keys)
    gradients = tf.gradients(tf.reduce_sum(tf.sin(output)), [table])
    return keys, output, optimizer.train_tables(gradients, [table]), table


def message_for(num_keys, num_new):
    return (
        rf"table 'EmbeddingVariable' is full: its capacity is {CAPACITY} keys, it holds "
        rf"{num_keys}, and {num_new} new keys came; raise .*max_vocabulary_size_per_gpu"
    )


@pytest.mark.parametrize("optimizer", COMMON_OPTIMIZERS, ids=str)
def test_training_goes_on_with_the_keys_it_has(sok, optimizer, initializer):
    keys, output, train, table = make_training(optimizer, initializer)
    exported = table.export()
    with initialized_session() as session:
        session.run(train, {keys: [10, 11, 12]})
        before = session.run(exported)
        with pytest.raises(tf.errors.ResourceExhaustedError, match=message_for(3, 2)):
            session.run([train, output], {keys: [10, 20, 11, 21, 20]})
        for old, kept in zip(before, session.run(exported)):
            np.testing.assert_array_equal(kept, old)
        session.run(train, {keys: [13, 10]})  # one new key still fits
        found, rows = session.run(exported)
        assert found.tolist() == [10, 11, 12, 13]
        assert np.all(rows[0] != before[1][0])
        with pytest.raises(tf.errors.ResourceExhaustedError, match=message_for(4, 1)):
            session.run(train, {keys: [20]})
        session.run(train, {keys: [13, 12, 11, 10]})
        assert np.all(session.run(exported)[1] != rows)


def test_a_failed_step_leaves_no_trace():
    results = []
    for has_failed_step in (True, False):
        with tf.Graph().as_default():
            sok_compat.Init(global_batch_size=8, seed=7)
            keys, _, train, table = make_training(COMMON_OPTIMIZERS[0])
            with initialized_session() as session:
                session.run(train, {keys: [10, 11, 12]})
                if has_failed_step:
                    with pytest.raises(tf.errors.ResourceExhaustedError):
                        session.run(train, {keys: [20, 21]})
                session.run(train, {keys: [12, 13]})
                results.append(session.run(table.export()))
    for failed, smooth in zip(*results):
        np.testing.assert_array_equal(failed, smooth)


def test_reading_needs_no_room(sok, initializer):
    case = LayerCase("dynamic", True, "int64")
    layer, keys = case.make_layer(CAPACITY, embedding_initializer=initializer), case.placeholder()
    insert, read = layer(keys), layer(keys, training=False)
    with initialized_session() as session:
        session.run(insert, {keys: [1, 2, 3, 4]})
        assert session.run(read, {keys: [4, 5, 6, 7, 8]}).shape == (5, case.dim)
        assert session.run(layer.embedding_variable.num_keys()) == CAPACITY
