# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers whose first values depend on a seed alone."""

import tensorflow as tf

tf1 = tf.compat.v1


def make_mlp(name, widths, seed):
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


def run_mlp(layers, inputs):
    """ReLU between the layers, none after the last."""
    for number, (weights, bias) in enumerate(layers):
        if number > 0:
            inputs = tf.nn.relu(inputs)
        inputs = tf.nn.bias_add(tf.matmul(inputs, weights), bias)
    return inputs
