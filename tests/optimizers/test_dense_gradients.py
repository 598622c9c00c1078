# SPDX-License-Identifier: Apache-2.0
"""SOK's optimizers with a gradient that was made dense."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from tests.support.sessions import initialized_session


@pytest.mark.parametrize("use_hashtable", [True, False])
@pytest.mark.parametrize("kind", ["plugin", "Keras", "lazy"])
def test_dense_gradients_train_the_rows_they_are_of(kind, use_hashtable):
    make = {
        "plugin": sok.optimizers.Adam,
        "Keras": sok.tf.keras.optimizers.Adam,
        "lazy": sok.tf.keras.optimizers.LazyAdamOptimizer,
    }[kind]
    with tf.Graph().as_default():
        sok.Init(global_batch_size=2, seed=1)
        layer = sok.All2AllDenseEmbedding(
            100, 4, 1, 1, dynamic_input=True, use_hashtable=use_hashtable
        )
        variable = layer.embedding_variable
        output = layer(tf.constant([50, 70], tf.int64))
        gradient = tf.convert_to_tensor(tf.gradients(tf.reduce_sum(output), [variable])[0])
        train = make(0.1).apply_gradients([(gradient, variable)])
        with initialized_session() as session:
            before = session.run(output)
            session.run(train)
            after = session.run(output)
    np.testing.assert_allclose(after, before - 0.1, rtol=1e-4)
