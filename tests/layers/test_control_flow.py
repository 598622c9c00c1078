# SPDX-License-Identifier: Apache-2.0
"""Layers inside tf.cond."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from tests.support.sessions import initialized_session


@pytest.mark.parametrize("training", [True, False])
def test_gradient_through_a_condition(training):
    with tf.Graph().as_default():
        sok.Init(global_batch_size=2, seed=1)
        layer = sok.All2AllDenseEmbedding(10, 4, 1, 1, dynamic_input=True)
        keys = tf.constant([3, 5, 3], tf.int64)
        known = layer(keys)
        chosen = tf.cond(
            tf.constant(training),
            lambda: layer(keys, training=True),
            lambda: layer(keys, training=False),
        )
        (gradient,) = tf.gradients(tf.reduce_sum(chosen), [layer.embedding_variable])
        with initialized_session() as session:
            session.run(known)
            dense = session.run(tf.convert_to_tensor(gradient))
    np.testing.assert_array_equal(dense[:3, 0], [2, 1, 0])
