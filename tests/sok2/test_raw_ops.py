# SPDX-License-Identifier: Apache-2.0
"""The eight raw ops, as a library's own dynamic variable calls them."""

import pytest
import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from tests.support.sessions import initialized_session


def make(raw, **arguments):
    types = {"key_type": tf.int64, "dtype": tf.float32}
    handle = raw.dummy_var_handle(
        container="DummyVariableContainer", shared_name="own", shape=[None, 2], **types
    )
    given = {"initializer": "2.5", "var_type": "hbm", "unique_name": "own", "config": "{}"}
    return handle, raw.dummy_var_initialize(handle, **{**given, **types, **arguments})


@pytest.mark.parametrize("as_function", [False, True], ids=["eager", "function"])
def test_a_variable_of_eight_ops(sok, as_function):
    raw = sok.experiment.raw_ops
    handle, _ = make(raw, config='{"init_capacity": 1000}')
    read = raw.dummy_var_sparse_read(handle, [1, 5, -7], lookup_only=True)
    assert read.numpy().tolist() == [[2.5, 2.5]] * 3
    assert raw.dummy_var_shape(handle).numpy().tolist() == [0, 2]  # it inserts nothing

    def train(keys):
        with tf.GradientTape() as tape:
            tape.watch(handle)
            loss = tf.reduce_sum(raw.dummy_var_sparse_read(handle, keys) ** 2)
        slices = tape.gradient(loss, handle)
        raw.dummy_var_scatter_add(handle, slices.indices, -0.1 * slices.values)
        return slices.indices, slices.values

    step = tf.function(train) if as_function else train
    indices, values = step(tf.constant([1, 5, 1], tf.int64))
    assert indices.numpy().tolist() == [1, 5, 1]  # by keys, one for each occurrence
    assert values.numpy().tolist() == [[5, 5]] * 3
    raw.dummy_var_scatter_update(handle, [5, 99], [[7, 8], [9, 9]])
    raw.dummy_var_assign(handle, [-3], [[4, 4]])
    keys, rows = raw.dummy_var_export(handle, key_type=tf.int32, dtype=tf.float32)
    assert keys.dtype == tf.int32
    found = dict(zip(keys.numpy().tolist(), rows.numpy().tolist()))
    assert found == {1: [1.5, 1.5], 5: [7, 8], -3: [4, 4]}
    raw.dummy_var_initialize(handle, initializer=[[6.0, 7.0]])
    assert raw.dummy_var_sparse_read(handle, [1]).numpy().tolist() == [[6, 6]]


def test_in_a_graph(sok):
    raw = sok.raw_ops
    with tf.Graph().as_default():
        handle, initialize = make(raw)
        rows = raw.dummy_var_sparse_read(handle, tf.constant([1, 5, 1], tf.int64))
        (slices,) = tf.gradients(tf.reduce_sum(rows**2), [handle])
        train = raw.dummy_var_scatter_add(handle, slices.indices, -0.1 * slices.values)
        exported = raw.dummy_var_export(handle)
        with initialized_session() as session:
            session.run(initialize)
            session.run(train)
            keys, values = session.run(exported)
    assert keys.tolist() == [1, 5] and values.tolist() == [[1.5, 1.5], [2, 2]]


def test_a_tensor_fills_the_rows_as_it_was_when_the_variable_began(sok):
    """As slots of optimizers start from a variable's value."""
    raw = sok.raw_ops
    with tf.Graph().as_default():
        given = tf.Variable([0.5])
        with tf.control_dependencies([given.initializer]):
            handle, initialize = make(raw, initializer=given.read_value())
        rows = raw.dummy_var_sparse_read(handle, tf.constant([4], tf.int64))
        known, initialize_known = make(raw, initializer=tf.constant([3.0, 4.0]))
        rows_of_known = raw.dummy_var_sparse_read(known, tf.constant([4], tf.int64))
        changed = given.assign([9.0])
        with tf.compat.v1.Session() as session:
            session.run([initialize, initialize_known])
            session.run(changed)
            assert session.run(rows).tolist() == [[0.5, 0.5]]
            assert session.run(given).tolist() == [9]  # a read does not run the initializer
            assert session.run(rows_of_known).tolist() == [[3, 3]]


class VariableOfALibrary(ResourceVariable):
    """Shows optimizers a buffer with the rows of a step, between to_static and to_dynamic."""

    def __init__(self, raw):
        super().__init__([[0.0, 0.0]], shape=[None, 2], name="of_a_library")
        self._raw, self._buffer = raw, self._handle
        self._handle, self.initialize = make(raw)
        self._table, self._indices = self._handle, None

    def sparse_read(self, indices, name=None, lookup_only=False):
        if self._indices is not None:
            return super().sparse_read(indices, name)
        return self._raw.dummy_var_sparse_read(self._table, indices, lookup_only=lookup_only)

    def to_static(self, indices, lookup_only=False):
        rows = self.sparse_read(indices, lookup_only=lookup_only)
        self._indices, self._handle = indices, self._buffer
        return self.assign(rows).op

    def to_dynamic(self):
        rows, indices = self.read_value(), self._indices
        self._indices, self._handle = None, self._table
        return self._raw.dummy_var_scatter_update(self._table, indices, rows)


def test_a_library_trains_its_variable_by_stock_optimizers(sok):
    with tf.Graph().as_default():
        variable = VariableOfALibrary(sok.raw_ops)
        keys = tf.constant([1, 5, 1], tf.int64)
        (slices,) = tf.gradients(tf.reduce_sum(variable.sparse_read(keys) ** 2), [variable])
        unique, places = tf.unique(slices.indices)
        with tf.control_dependencies([variable.to_static(unique)]):
            slices = tf.IndexedSlices(slices.values, places, [2, 2])
            optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
            updated = optimizer.apply_gradients([(slices, variable)])
        with tf.control_dependencies([updated]):
            train = variable.to_dynamic()
        unknown = variable.sparse_read(tf.constant([9], tf.int64), lookup_only=True)
        exported = sok.raw_ops.dummy_var_export(variable.handle)
        with initialized_session() as session:
            session.run(variable.initialize)
            session.run(train)
            assert session.run(unknown).tolist() == [[2.5, 2.5]]
            keys, values = session.run(exported)
    assert keys.tolist() == [1, 5] and values.tolist() == [[1.5, 1.5], [2, 2]]


def test_bad_arguments(sok):
    raw = sok.raw_ops
    with pytest.raises(ValueError, match=r"needs the shape \[None, dim\] and dtype float32"):
        raw.dummy_var_handle(shape=[None])
    with pytest.raises(ValueError, match="is not the result of sok.raw_ops.dummy_var_handle"):
        raw.dummy_var_shape(tf.Variable(1.0).handle)
    with pytest.raises(ValueError, match="var_type must be one of"):
        make(raw, var_type="other")
    with pytest.raises(ValueError, match="the initializer needs an element"):
        make(raw, initializer=[])
    with pytest.raises(TypeError, match="DynamicVariable has no argument"):
        make(raw, config='{"other": 1}')
