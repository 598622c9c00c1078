# SPDX-License-Identifier: Apache-2.0
"""What is particular to the optimizers of SparseOperationKit; their numbers: tests/layers."""

import logging
import time

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.runtime.tf_versions import keras_of_layers as keras
from tests.support.cases.layer_cases import LayerCase
from tests.support.cases.optimizer_cases import DenseLazyAdam, legacy
from tests.support.row_ids import rows_of_python
from tests.support.sessions import initialized_session

CASE = LayerCase("dynamic", True, "int64")


def train_one_table(sok, optimizer, num_steps=4):
    """The rows of two keys after some steps; the gradient of each element is 1."""
    layer = CASE.make_layer(embedding_initializer="zeros")
    table = layer.embedding_variable
    (gradient,) = tf.gradients(tf.reduce_sum(layer(tf.constant([1, 2], tf.int64))), [table])
    step = optimizer.apply_gradients([(gradient, table)])
    with initialized_session() as session:
        for _ in range(num_steps):
            session.run(step)
        return session.run(table.export()[1])


def train_reference(optimizer, num_steps=4):
    variable = tf.compat.v1.Variable(tf.zeros([2, CASE.dim]), use_resource=True)
    step = optimizer.apply_gradients([(tf.ones_like(variable), variable)])
    with initialized_session() as session:
        for _ in range(num_steps):
            session.run(step)
        return session.run(variable)


def decaying():
    return keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)


SETTINGS = {
    "default": dict(),
    "betas": dict(learning_rate=0.1, beta_1=0.5, beta_2=0.7),
    "epsilon": dict(learning_rate=0.1, epsilon=0.3),
    "schedule": dict(learning_rate=decaying),
    "tensor": dict(learning_rate=lambda: tf.constant(0.25)),
    "callable": dict(learning_rate=lambda: lambda: 0.25),
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("kind", ["plugin", "keras"])
def test_settings_of_adam(sok, kind, settings):
    make = sok.optimizers.Adam if kind == "plugin" else sok.tf.keras.optimizers.Adam
    if callable(settings.get("learning_rate")):
        settings = dict(settings, learning_rate=settings["learning_rate"]())
    rows = train_one_table(sok, make(**settings))
    np.testing.assert_allclose(rows, train_reference(legacy.Adam(**settings)), rtol=1e-5)


@pytest.mark.parametrize(
    "settings", [dict(), dict(learning_rate=0.1, beta1=0.5, beta2=0.7, epsilon=0.3)]
)
def test_settings_of_lazy_adam(sok, settings):
    rows = train_one_table(sok, sok.tf.keras.optimizers.LazyAdamOptimizer(**settings))
    reference = tf.compat.v1.train.AdamOptimizer(**settings)
    np.testing.assert_allclose(rows, train_reference(reference), rtol=1e-5)


def test_plugin_adam_takes_lr(sok):
    rows = train_one_table(sok, sok.optimizers.Adam(lr=0.5))
    np.testing.assert_allclose(rows, train_reference(legacy.Adam(0.5)), rtol=1e-5)


def test_plugin_adam_ignores_other_arguments_and_says_so(sok, caplog):
    with caplog.at_level(logging.WARNING):
        optimizer = sok.optimizers.Adam(0.5, clipnorm=1e-6, decay=0.9)
    assert "clipnorm" in caplog.text and "decay" in caplog.text
    np.testing.assert_allclose(
        train_one_table(sok, optimizer), train_reference(legacy.Adam(0.5)), rtol=1e-5
    )


@pytest.mark.parametrize("epsilon", [None, 0, 0.0])
def test_plugin_adam_epsilon_default(sok, epsilon):
    assert sok.optimizers.Adam(epsilon=epsilon).epsilon == 1e-7


def test_plugin_adam_trains_tables_only(sok):
    variable = tf.compat.v1.Variable([1.0], use_resource=True)
    with pytest.raises(ValueError, match="trains EmbeddingVariables only"):
        sok.optimizers.Adam().apply_gradients([(tf.ones([1]), variable)])


def test_plugin_adam_in_its_graph(sok):
    first, second = sok.optimizers.Adam(), sok.optimizers.Adam(name="another")
    collection = tf.compat.v1.get_collection(sok.GraphKeys.SparseOperationKitOptimizer)
    assert [id(optimizer) for optimizer in collection] == [id(first), id(second)]
    with pytest.raises(NotImplementedError):
        first.get_config()


def test_plugin_adam_initializer_puts_its_state_back(sok):
    layer = CASE.make_layer()
    table = layer.embedding_variable
    (gradient,) = tf.gradients(tf.reduce_sum(layer(tf.constant([1], tf.int64))), [table])
    optimizer = sok.optimizers.Adam(0.1)
    step = optimizer.apply_gradients([(gradient, table)])
    with initialized_session() as session:
        session.run(step)
        assert session.run(optimizer.iterations) == 1
        assert any(np.any(state) for state in session.run(optimizer.variables()[1:]))
        session.run(optimizer.initializer)
        assert not any(np.any(state) for state in session.run(optimizer.variables()))


@pytest.mark.parametrize("in_scope", [False, True], ids=["plugin", "stock"])
def test_a_large_declared_range_costs_rows_in_use_only(sok, in_scope, request):
    """Without a hash table, with the numbers of one; a scan of the range takes 300 ms and more."""
    if request.config.getoption("--gpu") or request.config.getoption("--gpu-kernels"):
        pytest.skip("without a hash index, a table on a GPU has a capacity below 2^31")
    capacity = 10**10
    keys = tf.compat.v1.placeholder(tf.int64, [None])
    layers = [
        LayerCase("dynamic", use_hashtable, "int64").make_layer(
            capacity=capacity, embedding_initializer="zeros"
        )
        for use_hashtable in (False, True)
    ]
    tables = [layer.embedding_variable for layer in layers]
    losses = [tf.reduce_sum(layer(keys[:, tf.newaxis])) for layer in layers]
    pairs = [(tf.gradients(loss, [table])[0], table) for loss, table in zip(losses, tables)]
    if in_scope:
        with sok.OptimizerScope(tables):
            steps = [tf.compat.v1.train.AdamOptimizer(0.1).apply_gradients([p]) for p in pairs]
    else:
        steps = [sok.optimizers.Adam(0.1).apply_gradients([pair]) for pair in pairs]
    batches = [[0, 7, capacity - 1], [7, 10**9], [capacity // 2]]
    seconds = []
    with initialized_session() as session:
        for batch in batches * 3:
            session.run(steps[1], {keys: batch})
            began = time.process_time()
            session.run(steps[0], {keys: batch})
            seconds.append(time.process_time() - began)
        all_keys = np.unique(np.concatenate(batches))
        rows, expected = session.run(
            [layer(tf.constant(all_keys)[:, tf.newaxis], training=False) for layer in layers]
        )
    np.testing.assert_allclose(rows, expected, rtol=1e-6)
    assert (rows != 0).all()
    assert min(seconds) < 0.1


def test_amsgrad_is_refused_on_tables(sok):
    with pytest.raises(ValueError, match="amsgrad"):
        train_one_table(sok, sok.tf.keras.optimizers.Adam(amsgrad=True))


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
def test_lazy_adam_on_an_ordinary_variable(sok, use_resource):
    """Slices with repeated and absent rows, then dense gradients."""
    rng = np.random.default_rng(0)
    start = rng.normal(size=[6, 3]).astype(np.float32)
    lazy, reference = (
        tf.compat.v1.Variable(start, use_resource=resource) for resource in (use_resource, True)
    )
    values = tf.compat.v1.placeholder(tf.float32, [None, 3])
    rows = tf.compat.v1.placeholder(tf.int64, [None])
    slices = tf.IndexedSlices(values, rows, tf.constant([6, 3], tf.int64))
    steps = [
        sok.tf.keras.optimizers.LazyAdamOptimizer(0.1).apply_gradients([(slices, lazy)]),
        DenseLazyAdam(0.1).apply_gradients([(slices, reference)]),
    ]
    with initialized_session() as session:
        for batch in ([1, 1, 4], [0], [], [4, 1, 4, 4], [5, 0]):
            session.run(steps, {rows: batch, values: rng.normal(size=[len(batch), 3])})
        actual, expected = session.run([lazy, reference])
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(actual[[2, 3]], start[[2, 3]])
        assert np.all(actual[[0, 1, 4, 5]] != start[[0, 1, 4, 5]])


def test_lazy_adam_on_a_dense_gradient(sok):
    optimizer = sok.tf.keras.optimizers.LazyAdamOptimizer(0.1)
    reference = train_reference(tf.compat.v1.train.AdamOptimizer(0.1))
    np.testing.assert_allclose(train_reference(optimizer), reference, rtol=1e-6)


MAKERS = {
    "keras": lambda sok: sok.tf.keras.optimizers.Adam(0.1),
    "lazy": lambda sok: sok.tf.keras.optimizers.LazyAdamOptimizer(0.1),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_tables_and_ordinary_variables_in_one_optimizer(sok, make):
    layer = CASE.make_layer(embedding_initializer="zeros")
    table = layer.embedding_variable
    plain = tf.compat.v1.Variable(tf.zeros([CASE.dim]), use_resource=True)
    loss = tf.reduce_sum(layer(tf.constant([1], tf.int64)) + plain)
    gradients = tf.gradients(loss, [plain, table])
    step = make(sok).apply_gradients(zip(gradients, [plain, table]))
    with initialized_session() as session:
        for _ in range(3):
            session.run(step)
        rows, vector = session.run([table.export()[1], plain])
        np.testing.assert_allclose(rows[0], vector, rtol=1e-5)
        assert np.all(vector < -0.25)


@pytest.mark.parametrize("make", [*MAKERS.values(), lambda sok: sok.optimizers.Adam(0.1)])
def test_repeated_rows_in_a_gradient_are_added_up(sok, make):
    """Slices made by hand, not by a lookup."""
    rows = {}
    for values, row_ids in (([1.0, 2.0, 4.0], [0, 1, 0]), ([5.0, 2.0], [0, 1])):
        with tf.Graph().as_default():
            sok.Init(global_batch_size=1)
            layer = CASE.make_layer(embedding_initializer="zeros")
            insert = layer(tf.constant([1, 2], tf.int64))
            gradient = tf.IndexedSlices(
                tf.constant(values)[:, tf.newaxis] * tf.ones([1, CASE.dim]), rows_of_python(row_ids)
            )
            step = make(sok).apply_gradients([(gradient, layer.embedding_variable)])
            with initialized_session() as session:
                session.run(insert)
                for _ in range(2):
                    session.run(step)
                rows[len(values)] = session.run(layer.embedding_variable.export()[1])
    np.testing.assert_array_equal(rows[3], rows[2])


@pytest.mark.parametrize("row", [-1, 2, 48])
def test_gradient_for_a_row_that_is_not_there(sok, row):
    layer = CASE.make_layer()
    gradient = tf.IndexedSlices(tf.ones([1, CASE.dim]), rows_of_python([row]))
    step = sok.optimizers.Adam(0.1).apply_gradients([(gradient, layer.embedding_variable)])
    insert = layer(tf.constant([1, 2], tf.int64))
    with initialized_session() as session:
        session.run(insert)
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"gradient for row {row}"):
            session.run(step)
