# SPDX-License-Identifier: Apache-2.0
"""`LossScaleOptimizer`: numbers of the wrapped optimizer, and steps that are not finite."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.sparse_operation_kit.tf.keras.mixed_precision import LossScaleOptimizer
from tests.support.cases.layer_cases import LayerCase
from tests.support.cases.optimizer_cases import (
    ALL_OPTIMIZERS,
    LAZY_ADAM,
    SOK_ADAM,
    STOCK_OPTIMIZERS,
)
from tests.support.row_ids import rows_of_python
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
CASE = LayerCase("dynamic", True, "int64", dim=4)
SCALES = {
    "fixed": lambda: 1024,
    "dynamic": lambda: "dynamic",
    "loss_scale": lambda: tf1.mixed_precision.DynamicLossScale(2.0**10, increment_period=2),
}
SCALED = [  # each optimizer with one scale, and one optimizer with each
    *(pytest.param(case, "dynamic", id=str(case)) for case in ALL_OPTIMIZERS),
    *(pytest.param(SOK_ADAM, scale, id=scale) for scale in ("fixed", "loss_scale")),
]


def build(sok, case, make_scale):
    """A model on one table: its placeholders, wrapped optimizer, training op and rows by key."""
    layer = CASE.make_layer(embedding_initializer="ones")
    table, keys = layer.embedding_variable, tf1.placeholder(tf.int64, [None])
    factor = tf1.placeholder_with_default(1.0, [])
    optimizer = LossScaleOptimizer(case.make(), make_scale() if make_scale else 1)
    loss = tf.reduce_sum(layer(keys) ** 2) * factor
    gradients = tf.gradients(optimizer.get_scaled_loss(loss), [table])
    pairs = list(zip(optimizer.get_unscaled_gradients(gradients), [table]))
    if case.needs_scope:
        with sok.OptimizerScope([table]):
            step = optimizer.apply_gradients(pairs)
    else:
        step = optimizer.apply_gradients(pairs)
    return table, keys, factor, optimizer, step


BATCHES = [[1, 2, 1], [3], [2, 4, 4, 4], [1, 5]]


@pytest.mark.parametrize("case, scale", SCALED)
def test_scaling_does_not_change_training(sok, case, scale):
    """Powers of two are exact, so rows are those of the optimizer without a scale."""
    (scaled, keys, *_, step), (plain, plain_keys, *_, plain_step) = (
        build(sok, case, make_scale) for make_scale in (SCALES[scale], None)
    )
    with initialized_session() as session:
        for batch in BATCHES:
            session.run([step, plain_step], {keys: batch, plain_keys: batch})
        (actual_keys, actual), (expected_keys, expected) = session.run(
            [scaled.export(), plain.export()]
        )
    np.testing.assert_array_equal(actual_keys, expected_keys)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    assert np.abs(actual - 1).min() > 1e-4


@pytest.mark.parametrize("control_flow_v2", [True, False])
@pytest.mark.parametrize("case", [SOK_ADAM, LAZY_ADAM, *STOCK_OPTIMIZERS[1::5]], ids=str)
def test_a_step_that_is_not_finite_is_skipped(sok, case, control_flow_v2, monkeypatch):
    switch = tf1.enable_control_flow_v2 if control_flow_v2 else tf1.disable_control_flow_v2
    was_enabled = tf1.control_flow_v2_enabled()
    switch()
    try:
        table, keys, factor, optimizer, step = build(sok, case, SCALES["loss_scale"])
    finally:
        (tf1.enable_control_flow_v2 if was_enabled else tf1.disable_control_flow_v2)()
    rows, scale = table.export()[1], optimizer.loss_scale()
    with initialized_session() as session:
        seen = []
        for value in (1.0, np.inf, np.nan, 1.0, 1.0):
            before = session.run(rows)
            session.run(step, {keys: [1, 2], factor: value})
            has_moved = len(before) == 0 or np.any(session.run(rows) != before)
            seen.append((has_moved, session.run(scale)))
        assert np.all(np.isfinite(session.run(rows)))
    assert seen == [(True, 1024.0), (False, 512.0), (False, 256.0), (True, 256.0), (True, 512.0)]


def test_a_skipped_step_is_not_counted(sok):
    layer = CASE.make_layer()
    table, rows = layer.embedding_variable, layer(tf.constant([1], tf.int64))
    global_step = tf1.train.get_or_create_global_step()
    inner = tf1.train.AdagradOptimizer(0.1)
    optimizer = LossScaleOptimizer(inner, "dynamic")
    value = tf1.placeholder(tf.float32, [])
    slices = tf.IndexedSlices(tf.fill([1, 4], value), rows_of_python([0]))
    plain = tf1.Variable(1.0, use_resource=True)
    pairs = [(slices, table), (None, tf1.Variable(1.0)), (value, plain)]
    step = optimizer.apply_gradients(pairs, global_step=global_step)
    with initialized_session() as session:
        session.run(rows)  # key 1 gets row 0
        for gradient, count in ((1.0, 1), (np.inf, 1), (2.0, 2)):
            session.run(step, {value: gradient})
            assert session.run(global_step) == count
        assert session.run(plain) < 1.0


@pytest.mark.parametrize("kind", ["tf1", "keras"])
def test_minimize_scales_and_unscales(graph, kind):
    """With a scale of 4096, float16 gradients of 1e-8 do not become 0."""
    inner = tf1.train.GradientDescentOptimizer(1.0) if kind == "tf1" else None
    inner = inner or keras.optimizers.legacy.SGD(1.0)
    optimizer = LossScaleOptimizer(inner, 4096)
    variable = tf1.Variable(1.0, use_resource=True)
    loss = tf.cast(tf.cast(variable, tf.float16) * tf.constant(1e-4, tf.float16), tf.float32) * 1e-4
    (gradient,) = optimizer.get_gradients(loss, [variable])
    step = optimizer.minimize(loss, [variable])
    with initialized_session() as session:
        assert session.run(gradient) == pytest.approx(1e-8, rel=1e-2)
        session.run(step)


def test_scaled_loss_and_unscaled_gradients(graph):
    optimizer = LossScaleOptimizer(tf1.train.GradientDescentOptimizer(1.0), 8.0)
    loss = tf.constant(2.0, tf.float16)
    scaled, called = optimizer.get_scaled_loss(loss), optimizer.get_scaled_loss(lambda: loss)()
    assert scaled.dtype == called.dtype == tf.float16
    slices = tf.IndexedSlices(tf.fill([1, 2], 8.0), tf.constant([3]), tf.constant([9, 2]))
    unscaled = optimizer.get_unscaled_gradients((tf.constant(4.0), None, slices))
    assert unscaled[1] is None
    with tf1.Session() as session:
        assert session.run([scaled, called, unscaled[0]]) == [16.0, 16.0, 0.5]
        values = session.run(unscaled[2])
    assert values.values.tolist() == [[1.0, 1.0]]
    assert (values.indices.tolist(), values.dense_shape.tolist()) == ([3], [9, 2])


def test_other_attributes_are_the_wrapped_optimizers(sok):
    inner = sok.optimizers.Adam(0.5)
    optimizer = sok.tf.keras.mixed_precision.LossScaleOptimizer(inner, loss_scale=2)
    assert isinstance(optimizer.initializer, tf.Operation)
    assert optimizer.iterations is inner.iterations
    optimizer.learning_rate = 0.25
    learning_rate = inner.learning_rate
    assert optimizer.lr is learning_rate
    with initialized_session() as session:
        assert session.run(learning_rate) == 0.25
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = optimizer.no_such_name
    with pytest.raises(AttributeError, match="initializer"):
        _ = LossScaleOptimizer(tf1.train.AdagradOptimizer(0.1), 2).initializer


@pytest.mark.parametrize("loss_scale", [2, "dynamic"])
def test_makes_no_word_of_what_to_use_instead(graph, loss_scale, caplog):
    LossScaleOptimizer(tf1.train.AdagradOptimizer(0.1), loss_scale)
    assert "deprecated" not in caplog.text


def test_in_eager_mode():
    variable = tf.Variable([1.0, 2.0])
    optimizer = LossScaleOptimizer(keras.optimizers.legacy.SGD(0.5), "dynamic")
    for factor in (1.0, np.inf):
        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(tf.reduce_sum(variable) * factor)
        gradients = optimizer.get_unscaled_gradients(tape.gradient(loss, [variable]))
        optimizer.apply_gradients(zip(gradients, [variable]))
    assert variable.numpy().tolist() == [0.5, 1.5]
    assert optimizer.loss_scale().numpy() == 2.0**14


@pytest.mark.parametrize("loss_scale", [0.5, 0, -2, None, "fixed", float("inf"), float("nan"), []])
def test_loss_scale_must_be_at_least_one_or_dynamic(graph, loss_scale):
    with pytest.raises(ValueError, match="loss_scale must be a number >= 1 or 'dynamic'"):
        LossScaleOptimizer(tf1.train.AdagradOptimizer(0.1), loss_scale)


@pytest.mark.parametrize("opt", [None, "adam", 3])
def test_opt_must_be_an_optimizer(opt):
    with pytest.raises(TypeError, match="opt must be an optimizer"):
        LossScaleOptimizer(opt, 2)


@pytest.mark.parametrize("make_scale", [SCALES["fixed"], SCALES["dynamic"]])
@pytest.mark.parametrize("case", [SOK_ADAM, LAZY_ADAM], ids=str)
def test_mixed_float16_trains_as_plain_tensorflow(sok, case, make_scale):
    """A float16 model on a table, beside the same in float32 on an ordinary variable."""
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 0.5, [8, 1]).astype(np.float32)
    ids, labels = tf1.placeholder(tf.int64, [None, 2]), tf1.placeholder(tf.float32, [None, 1])
    policy = keras.mixed_precision.Policy("mixed_float16")
    layer = CASE.make_layer(dtype=policy)
    table = layer.embedding_variable
    plain = tf1.Variable(tf.zeros([12, 4]), use_resource=True)
    copy = plain.assign(tf.cast(CASE.rows_of(layer, range(12)), tf.float32))

    def loss_of(rows):
        logits = tf.reshape(rows, [-1, 8]) @ tf.constant(weights, rows.dtype)
        return tf.reduce_mean((tf.cast(logits, tf.float32) - labels) ** 2)

    rows = layer(tf.reshape(ids, [-1]))
    assert rows.dtype == tf.float16
    losses = loss_of(rows), loss_of(tf.gather(plain, ids))
    optimizer = LossScaleOptimizer(case.make(), make_scale())
    step = optimizer.minimize(losses[0], [table])
    reference = case.train_reference(tf.gradients(losses[1], [plain]), [plain])
    with initialized_session() as session:
        session.run(copy)
        values = []
        for _ in range(40):
            batch = rng.integers(0, 12, [16, 2])
            feed = {ids: batch, labels: batch.sum(axis=1, keepdims=True) % 2 * 0.2}
            values.append(session.run([losses, step, reference], feed)[0])
        keys, actual = session.run(table.export())
        expected = session.run(plain)[keys]
    np.testing.assert_allclose(*np.transpose(values), rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(actual, expected, atol=1e-2)
    assert np.mean(values[-5:]) < 0.7 * np.mean(values[:5])
