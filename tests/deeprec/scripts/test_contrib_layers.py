# SPDX-License-Identifier: Apache-2.0
"""Layers of `tf.contrib.layers` have the names and numbers of TensorFlow 1.15."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from sok_compat.deeprec.contrib import framework, layers

INPUTS = np.random.RandomState(0).normal(size=(5, 2, 3)).astype(np.float32)
SHAPES = {2: (5, 6), 3: (5, 2, 3), 4: (5, 1, 2, 3)}


def run(build):
    """(outputs, {variable: value}) of a network's outputs, or of (outputs, what runs before)."""
    with tf.Graph().as_default(), tf.Session() as session:
        outputs = build()
        random = np.random.RandomState(1)
        for variable in tf.global_variables():
            variable.load(random.uniform(0.1, 1, variable.shape.as_list()), session)
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        results = session.run([outputs, updates])[0]
        return results, {v.op.name: session.run(v) for v in tf.global_variables()}


def test_fully_connected():
    penalty = layers.l2_regularizer(0.5)

    def build():
        hidden = layers.fully_connected(
            INPUTS, 4, weights_regularizer=penalty, variables_collections={"weights": ["mine"]}
        )
        outputs = [
            hidden,
            layers.linear(hidden, 2, scope="logits"),
            layers.fully_connected(
                INPUTS[:, 0], 2, tf.tanh, layers.layer_norm, dict(center=False), scope="norm"
            ),
            layers.fully_connected(INPUTS[:, 0], 2, biases_initializer=None, trainable=False),
        ]
        outputs.append(layers.linear(hidden, 2, scope="logits", reuse=True))
        assert [v.op.name for v in tf.get_collection("mine")] == ["fully_connected/weights"]
        assert len(tf.trainable_variables()) == 6
        assert tf.global_variables() == tf.get_collection(tf.GraphKeys.MODEL_VARIABLES)
        return outputs + tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)

    (hidden, logits, norm, fixed, again, loss), made = run(build)
    assert set(made) == {
        *("fully_connected/weights", "fully_connected/biases", "logits/weights", "logits/biases"),
        *("norm/weights", "norm/LayerNorm/gamma", "fully_connected_1/weights"),
    }
    weights, biases = made["fully_connected/weights"], made["fully_connected/biases"]
    np.testing.assert_allclose(hidden, np.maximum(INPUTS @ weights + biases, 0), rtol=1e-5)
    expected = hidden @ made["logits/weights"] + made["logits/biases"]
    np.testing.assert_allclose([logits, again], [expected] * 2, rtol=1e-5)
    np.testing.assert_allclose(loss, 0.25 * np.sum(weights**2), rtol=1e-5)
    plain = INPUTS[:, 0] @ made["norm/weights"]
    normal = (plain - plain.mean(1, keepdims=True)) / plain.std(1, keepdims=True)
    np.testing.assert_allclose(norm, np.tanh(normal * made["norm/LayerNorm/gamma"]), rtol=1e-4)
    of_fixed = INPUTS[:, 0] @ made["fully_connected_1/weights"]
    np.testing.assert_allclose(fixed, np.maximum(of_fixed, 0), rtol=1e-5)


@pytest.mark.parametrize("is_fed", [False, True])
@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("rank, fused", [(2, None), (2, False), (3, None), (4, None)])
def test_batch_norm(rank, fused, is_training, is_fed):
    inputs = INPUTS.reshape(SHAPES[rank])
    axes = tuple(range(rank - 1))
    size = inputs.size // inputs.shape[-1]

    def build():
        given = tf.placeholder_with_default(is_training, []) if is_fed else is_training
        outputs = [
            layers.batch_norm(inputs, is_training=given, fused=fused),
            layers.batch_norm(
                inputs, 0.9, False, True, 0.1, tf.sigmoid, updates_collections=None,
                is_training=given, fused=fused, scope="in_place",
            ),
        ]  # fmt: skip
        num_updates = 0 if not is_training and not is_fed else 2
        assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == num_updates
        assert len(tf.trainable_variables()) == 2
        return outputs

    results, made = run(build)
    first = np.random.RandomState(1).uniform(0.1, 1, [6, inputs.shape[-1]])
    names = ["beta", "moving_mean", "moving_variance"]
    names = [f"BatchNorm/{name}" for name in names] + [
        f"in_place/{name}" for name in ("gamma", "moving_mean", "moving_variance")
    ]
    assert list(made) == names
    before = dict(zip(names, first))
    is_fused = rank != 3 and fused is None
    mean, variance = inputs.mean(axes), inputs.var(axes)
    batch = mean, variance * (size / (size - 1) if is_fused else 1)
    for scope, decay, epsilon in (("BatchNorm", 0.999, 0.001), ("in_place", 0.9, 0.1)):
        moving = [before[f"{scope}/moving_{name}"] for name in ("mean", "variance")]
        after = [made[f"{scope}/moving_{name}"] for name in ("mean", "variance")]
        kept = decay if is_training else 1
        expected = [kept * old + (1 - kept) * new for old, new in zip(moving, batch)]
        np.testing.assert_allclose(after, expected, rtol=1e-5)
        of_mean, of_variance = (mean, variance) if is_training else moving
        normal = (inputs - of_mean) / np.sqrt(of_variance + epsilon)
        if scope == "BatchNorm":
            np.testing.assert_allclose(results[0], normal + before["BatchNorm/beta"], rtol=2e-5)
        else:
            scaled = 1 / (1 + np.exp(-normal * before["in_place/gamma"]))
            np.testing.assert_allclose(results[1], scaled, rtol=2e-5)


def test_layers_together():
    """A normalized layer on three dimensions, dropout of whole rows, and penalties."""

    def build():
        normal = layers.fully_connected(
            INPUTS, 4, None, layers.batch_norm, dict(is_training=True, scale=True),
            weights_regularizer=layers.l2_regularizer(0.1), scope="normal",
        )  # fmt: skip
        dropped = layers.dropout(tf.ones([40, 3]), noise_shape=[40, 1], seed=2)
        return normal, dropped, tf.losses.get_regularization_loss()

    (normal, dropped, penalty), made = run(build)
    hidden = INPUTS @ made["normal/weights"]
    mean, variance = hidden.mean((0, 1)), hidden.var((0, 1))
    scaled = (hidden - mean) / np.sqrt(variance + 0.001) * made["normal/BatchNorm/gamma"]
    np.testing.assert_allclose(normal, scaled + made["normal/BatchNorm/beta"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(penalty, 0.05 * np.sum(made["normal/weights"] ** 2), rtol=1e-5)
    assert np.unique(dropped[:, 0]).tolist() == [0, 2]
    np.testing.assert_array_equal(dropped, dropped[:, :1] * [1, 1, 1])


def test_layer_norm_dropout_flatten_and_stack():
    def build():
        with framework.arg_scope([layers.fully_connected, layers.dropout], scope="x"):
            with framework.arg_scope([layers.fully_connected], activation_fn=None) as both:
                inner = layers.fully_connected(INPUTS[:, 0], 2)
            outer = layers.fully_connected(INPUTS[:, 0], 2, reuse=True)
            assert both[layers.fully_connected.name_in_arg_scope].keys() == {
                "activation_fn",
                "scope",
            }
        with framework.arg_scope(both):
            again = layers.fully_connected(INPUTS[:, 0], 2, reuse=True)
        dropped = layers.dropout(INPUTS, 0.25, seed=1)
        return [
            *(inner, outer, again, dropped, layers.dropout(INPUTS, 0.1, is_training=False)),
            *(layers.flatten(INPUTS), layers.layer_norm(INPUTS, activation_fn=tf.abs)),
            layers.layer_norm(INPUTS, begin_norm_axis=-1, begin_params_axis=1, scope="last"),
            layers.stack(INPUTS[:, 0], layers.fully_connected, [4, (2, None)]),
        ]

    (inner, outer, again, dropped, kept, flat, whole, last, stacked), made = run(build)
    np.testing.assert_allclose(outer, np.maximum(inner, 0))
    np.testing.assert_array_equal(again, inner)
    is_kept = dropped != 0
    assert 0 < is_kept.sum() < INPUTS.size
    np.testing.assert_allclose(dropped[is_kept], INPUTS[is_kept] * 4, rtol=1e-6)
    np.testing.assert_array_equal(kept, INPUTS)
    np.testing.assert_array_equal(flat, INPUTS.reshape(5, 6))
    for result, axes, scope in ((whole, (1, 2), "LayerNorm"), (last, (2,), "last")):
        centered = INPUTS - INPUTS.mean(axes, keepdims=True)
        normal = centered / centered.std(axes, keepdims=True)
        expected = normal * made[f"{scope}/gamma"] + made[f"{scope}/beta"]
        expected = np.abs(expected) if scope == "LayerNorm" else expected
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)
    assert made["last/gamma"].shape == (2, 3)
    stack = "Stack/fully_connected_"
    hidden = np.maximum(INPUTS[:, 0] @ made[f"{stack}1/weights"] + made[f"{stack}1/biases"], 0)
    expected = hidden @ made[f"{stack}2/weights"] + made[f"{stack}2/biases"]
    np.testing.assert_allclose(stacked, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "build, error, message",
    [
        (lambda x: layers.fully_connected(x, 2.5), ValueError, "must be an int, got 2.5"),
        (lambda x: layers.fully_connected(x[:, 0, 0], 2), ValueError, r"got the shape \(5,\)"),
        (lambda x: layers.batch_norm(x, renorm=True), NotImplementedError, "no renorm, got True"),
        (lambda x: layers.batch_norm(x, data_format="NCHW"), NotImplementedError, "data_format"),
        (lambda x: layers.batch_norm(tf.placeholder(tf.float32)), ValueError, "must be known"),
        (lambda x: layers.layer_norm(x, begin_params_axis=3), ValueError, "dimensions 1 .* and 3"),
        (lambda x: layers.flatten(tf.placeholder(tf.float32)), ValueError, "unknown"),
        (lambda x: layers.conv2d(x, 3), AttributeError, "no tf.contrib.layers.conv2d: use tf.lay"),
        (
            lambda x: framework.arg_scope([tf.identity], name="a").__enter__(),
            ValueError,
            "not decorated with add_arg_scope",
        ),
        (
            lambda x: framework.arg_scope({}, name="a").__enter__(),
            ValueError,
            "of a scope takes no further arguments",
        ),
    ],
)
def test_errors(build, error, message):
    with tf.Graph().as_default(), pytest.raises(error, match=message):
        build(tf.constant(INPUTS))


@pytest.mark.parametrize(
    "initializer, variance",
    [
        (layers.xavier_initializer, 1 / 40),
        (layers.variance_scaling_initializer, 2 / 30),
        (functools.partial(layers.variance_scaling_initializer, 1.0, "FAN_OUT"), 1 / 50),
    ],
)
def test_initializers(initializer, variance):
    """Seeded ones draw TensorFlow 1.15's numbers: 1.3 times the variance before truncation."""
    with tf.Graph().as_default(), tf.Session() as session:
        ours = [initializer(uniform=uniform, seed=3)([30, 50]) for uniform in (True, False)]
        limit, deviation = np.sqrt([3 * variance, 1.3 * variance])
        plain = [
            tf.random_uniform([30, 50], -limit, limit, seed=3),
            tf.truncated_normal([30, 50], 0, deviation, seed=3),
        ]
        for actual, expected in zip(*session.run([ours, plain])):
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-7)
