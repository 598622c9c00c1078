# SPDX-License-Identifier: Apache-2.0
"""DLRM: bottom MLP over the dense inputs, dot products of all pairs of vectors, top MLP."""

import numpy as np
import tensorflow as tf

from examples.dlrm import criteo, reader

tf1 = tf.compat.v1

NUM_VECTORS = criteo.NUM_CATEGORICAL + 1  # the categories' and the bottom MLP's


class Dlrm:
    """The dense part of the model; its weights are shared by all calls in one graph."""

    def __init__(self, options):
        widths = (reader.DENSE_WIDTH, *options.bottom_widths, options.dim)
        self._bottom = _make_mlp("bottom", widths, options.seed)
        num_pairs = NUM_VECTORS * (NUM_VECTORS - 1) // 2
        widths = (options.dim + num_pairs, *options.top_widths, 1)
        self._top = _make_mlp("top", widths, options.seed + 100)

    def __call__(self, dense, vectors):
        """dense [batch, DENSE_WIDTH], vectors [batch, 26, dim] -> logits [batch]."""
        bottom = tf.nn.relu(_run_mlp(self._bottom, dense))
        pairs = dot_products(tf.concat([tf.expand_dims(bottom, 1), vectors], axis=1))
        logits = _run_mlp(self._top, tf.concat([bottom, pairs], axis=1))
        return tf.squeeze(logits, axis=1)


def dot_products(vectors):
    """[batch, n, dim] -> [batch, n * (n - 1) / 2]: the dot product of each pair of vectors."""
    count = vectors.shape[1]
    products = tf.reshape(tf.matmul(vectors, vectors, transpose_b=True), [-1, count * count])
    first, second = np.tril_indices(count, k=-1)
    return tf.gather(products, first * count + second, axis=1)


def _make_mlp(name, widths, seed):
    """[(weights, bias), ...]; the seed alone decides the values, whatever else is in the graph."""
    layers = []
    for number, (fan_in, fan_out) in enumerate(zip(widths[:-1], widths[1:])):
        with tf1.variable_scope(f"{name}_{number}"):
            weights = tf1.get_variable(
                "weights",
                [fan_in, fan_out],
                use_resource=True,
                initializer=tf1.glorot_normal_initializer(seed=seed + number),
            )
            bias = tf1.get_variable(
                "bias", [fan_out], use_resource=True, initializer=tf1.zeros_initializer()
            )
        layers.append((weights, bias))
    return layers


def _run_mlp(layers, inputs):
    """ReLU between the layers, none after the last."""
    for number, (weights, bias) in enumerate(layers):
        if number > 0:
            inputs = tf.nn.relu(inputs)
        inputs = tf.nn.bias_add(tf.matmul(inputs, weights), bias)
    return inputs
