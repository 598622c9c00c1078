# SPDX-License-Identifier: Apache-2.0
"""Updates of a table by row id and as a whole, beside those of an ordinary variable."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.runtime.tf_versions import has_keras_2
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.tables.rows.shown_rows import showing_all_rows
from tests.support.cases.layer_cases import LayerCase
from tests.support.sessions import initialized_session

CASE = LayerCase("dynamic", True, "int64", dim=3)
KEYS = [40, -7, 12, 5]
SLICES = {
    "one row": ([2], [[1.0, 2.0, 3.0]]),
    "several": ([3, 0], np.arange(6.0).reshape(2, 3)),
    "none": ([], np.zeros([0, 3])),
}


@pytest.fixture
def table(sok):
    """A table of capacity 4 with the rows of KEYS, and an ordinary variable with the same rows."""
    layer = CASE.make_layer(capacity=4)
    insert = layer(tf.constant(KEYS, tf.int64))
    variable = layer.embedding_variable
    plain = tf.compat.v1.Variable(tf.zeros([4, 3]), use_resource=True)
    copy = plain.assign(tf.identity(insert))
    return variable, plain, copy


def after(table, make_update):
    """The rows of both after the same update, which takes row ids."""
    variable, plain, copy = table
    with showing_all_rows(variable):
        updates = [make_update(variable), tf.group(make_update(plain))]
    with initialized_session() as session:
        session.run(copy)
        session.run(updates)
        return session.run([variable.value(), plain])


@pytest.mark.parametrize("row_ids, values", SLICES.values(), ids=SLICES)
@pytest.mark.parametrize("method", ["scatter_sub", "scatter_update"])
def test_scatter_by_row_id(table, method, row_ids, values):
    slices = tf.IndexedSlices(tf.constant(values, tf.float32), tf.constant(row_ids, tf.int64))
    actual, expected = after(table, lambda v: getattr(v, method)(slices))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_repeated_row_ids_count_each_time(table):
    slices = tf.IndexedSlices(tf.ones([3, 3]), tf.constant([1, 1, 0], tf.int64))
    actual, expected = after(table, lambda v: v.scatter_sub(slices))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("read_value", [True, False])
def test_assign_sub(table, read_value):
    delta = tf.reshape(tf.range(12.0), [4, 3])
    actual, expected = after(table, lambda v: tf.group(v.assign_sub(delta, read_value=read_value)))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_update_through_tf_handle(table):
    def update(variable):
        handle = getattr(variable, "tf_handle", variable.handle)
        return tf.raw_ops.ResourceScatterAdd(resource=handle, indices=[1], updates=[[1.0] * 3])

    actual, expected = after(table, update)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_a_gradient_updates_its_rows(table):
    variable, _, copy = table
    layer_output = CASE.make_layer(capacity=4)(tf.constant(KEYS[:2], tf.int64))
    other = [v for v in tf.compat.v1.global_variables() if v.name == "EmbeddingVariable_1:0"][0]
    (gradient,) = tf.gradients(tf.reduce_sum(2.0 * layer_output), [other])
    step = other.scatter_sub(gradient)
    assert isinstance(step, tf.Operation)
    with initialized_session() as session:
        before = session.run(layer_output)
        session.run(step)
        np.testing.assert_allclose(session.run(layer_output), before - 2.0, rtol=1e-5)


@pytest.mark.parametrize("method", ["scatter_sub", "scatter_update"])
def test_scatter_takes_slices(table, method):
    with pytest.raises(TypeError, match=f"{method} of the table EmbeddingVariable takes"):
        getattr(table[0], method)(tf.ones([4, 3]))


@pytest.mark.skipif(not has_keras_2, reason="optimizers of Keras 2")
@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "Adagrad"])
@pytest.mark.parametrize("use_hash_index", [True, False])
def test_keras_optimizers_that_update_nothing_are_refused(sok, optimizer, use_hash_index):
    layer = LayerCase("dynamic", use_hash_index, "int64").make_layer()
    output, variable = layer(tf.constant([1], tf.int64)), layer.embedding_variable
    gradients = tf.gradients(tf.reduce_sum(output), [variable])
    with pytest.raises(NotImplementedError, match="work in graph mode .*legacy"):
        getattr(keras.optimizers, optimizer)(0.1).apply_gradients(zip(gradients, [variable]))


def test_row_id_beyond_the_capacity(table):
    with showing_all_rows(table[0]):
        slices = tf.IndexedSlices(tf.ones([1, 3]), tf.constant([4], tf.int64))
        update = table[0].scatter_sub(slices)
    with initialized_session() as session, pytest.raises(tf.errors.InvalidArgumentError):
        session.run(update)


def test_a_row_changed_before_its_key_comes_starts_fresh(sok):
    layer = CASE.make_layer(capacity=4, embedding_initializer="ones")
    variable = layer.embedding_variable
    slices = tf.IndexedSlices(tf.fill([4, 3], 5.0), tf.range(4, dtype=tf.int64))
    output = layer(tf.constant([1], tf.int64))
    with initialized_session() as session, showing_all_rows(variable):
        session.run(variable.scatter_update(slices))
        assert session.run(output).tolist() == [[1.0] * 3]


@pytest.mark.parametrize("initializer, expected", [
    (None, "uniform -0.05 0.05"), ("zeros", "constant 0.0 0.0"),
])  # fmt: skip
def test_initial_value_of_rows_that_come_with_keys(sok, initializer, expected):
    layer = CASE.make_layer(embedding_initializer=initializer)
    assert layer.embedding_variable.m_initial_value == expected


def test_initial_value_of_a_whole_table(sok):
    rows = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    layer = CASE.make_layer(
        capacity=4, embedding_initializer=tf.compat.v1.constant_initializer(rows)
    )
    initial = layer.embedding_variable.m_initial_value
    with tf.compat.v1.Session() as session:
        np.testing.assert_array_equal(session.run(initial), rows)
