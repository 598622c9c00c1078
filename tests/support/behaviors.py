# SPDX-License-Identifier: Apache-2.0
"""Tests that run in the behaviour of TensorFlow 2, in eager mode, and in that of TensorFlow 1, each
in a graph and a session of its own (the fixture in tests/distributed_embeddings)."""

import os

import tensorflow as tf

TF1_VARIABLE = "SOK_TEST_TF1"  # in the environment: the tests run in the behaviour of TensorFlow 1
IS_TF1 = TF1_VARIABLE in os.environ


def initialize():
    """Gives the variables of the default graph their first values; in eager mode they have them."""
    if IS_TF1:
        tf.compat.v1.get_default_session().run(tf.compat.v1.global_variables_initializer())


def computed(values):
    """What tensors hold, in their structure: as arrays, or what a session gives."""
    if IS_TF1:
        return tf.compat.v1.get_default_session().run(values)
    return tf.nest.map_structure(lambda value: value.numpy(), values)
