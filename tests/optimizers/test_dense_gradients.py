# SPDX-License-Identifier: Apache-2.0
"""Optimizers with a gradient that was made dense."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from tests.support.ops_of_steps import ops_of_step
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1


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


legacy = keras.optimizers.legacy
STOCK = {
    "TF1 GradientDescent": lambda: tf1.train.GradientDescentOptimizer(0.1),
    "TF1 Adagrad": lambda: tf1.train.AdagradOptimizer(0.1),
    "TF1 Momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
    "TF1 RMSProp": lambda: tf1.train.RMSPropOptimizer(0.1),
    "TF1 Ftrl": lambda: tf1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "Keras SGD": lambda: legacy.SGD(0.1),
    "Keras Adagrad": lambda: legacy.Adagrad(0.1),
}


@pytest.mark.parametrize("make", STOCK.values(), ids=STOCK)
def test_stock_optimizers_update_the_rows_in_use_by_one_op(make):
    """With the numbers of an ordinary variable of the rows in use."""
    with tf.Graph().as_default() as graph:
        sok.Init(global_batch_size=2, seed=1)
        layer = sok.All2AllDenseEmbedding(1000, 4, 1, 1, dynamic_input=True)
        table = layer.embedding_variable
        output = layer(tf.constant([50, 70, 50], tf.int64))
        plain = tf1.get_variable("plain", [2, 4])
        losses = [tf.reduce_sum(output**2), tf.reduce_sum(tf.gather(plain, [0, 1, 0]) ** 2)]
        steps = []
        for loss, variable in zip(losses, [table, plain]):
            gradient = tf.convert_to_tensor(tf.gradients(loss, [variable])[0])
            with sok.OptimizerScope([variable]):
                steps.append(make().apply_gradients([(gradient, variable)]))
        copy = plain.assign(layer(tf.constant([50, 70], tf.int64)))
        with initialized_session() as session:
            session.run(copy)
            for _ in range(5):
                session.run(steps)
            ran = ops_of_step(session, steps[0], {}, graph.get_operations())
            session.run(steps[1])
            rows, expected = session.run([output, plain])
    np.testing.assert_allclose(rows[:2], expected, rtol=1e-5)
    types = [op.type for op in ran]
    assert types.count("SokApplyRule") == 1
    assert not any(name.startswith("ResourceApply") for name in types)
