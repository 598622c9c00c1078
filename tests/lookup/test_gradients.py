# SPDX-License-Identifier: Apache-2.0
"""Gradients that TensorFlow computes in graphs in its own ways, for lookups of all faces."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat import distributed_embeddings as de
from sok_compat.deeprec.lookups.stock_lookups import embedding_lookup
from sok_compat.deeprec.optimizer_rules import train_optimizers
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
NUM_ROWS, DIM = 10, 2
KEYS = np.array([1, 2, 1, 7])


def plain(name):
    rows = tf1.get_variable(name, [NUM_ROWS, DIM], initializer=tf1.ones_initializer())
    return rows, lambda keys: tf.gather(rows, keys)


def sok1(name):
    layer = sok.All2AllDenseEmbedding(
        NUM_ROWS, DIM, 1, 1, dynamic_input=True, embedding_initializer="ones", name=name
    )
    return layer.embedding_variable, layer


def sok2(name):
    table = sok.DynamicVariable(dimension=DIM, initializer="ones", name=name)
    return table, lambda keys: sok.lookup_sparse(
        table, tf.RaggedTensor.from_tensor(keys[:, tf.newaxis]), combiners="sum"
    )


def of_deeprec(name):
    table = get_embedding_variable(name, DIM, initializer=tf1.ones_initializer())
    return table, lambda keys: embedding_lookup(table, keys)


def of_distributed_embeddings(name):
    layer = de.Embedding(NUM_ROWS, DIM, embeddings_initializer="ones", name=name)
    layer.build([None])
    return layer.trainable_weights[0], layer


TABLES = [sok1, sok2, of_deeprec, of_distributed_embeddings]


def losses_of(make, gradients_of, num_steps=3):
    """Losses of training by Adagrad; `gradients_of` returns a loss, gradients and variables."""
    with tf.Graph().as_default():
        sok.init()
        sok.Init(global_batch_size=len(KEYS))
        loss, gradients, variables = gradients_of(*make("one"), *make("another"))
        train = train_optimizers if make is of_deeprec else tf1.train
        optimizer = train.AdagradOptimizer(0.1)
        if make is sok2:
            optimizer = sok.OptimizerWrapper(optimizer)
        step = optimizer.apply_gradients(zip(gradients, variables))
        with initialized_session() as session:
            return [session.run([loss, step])[0] for _ in range(num_steps)]


def recomputed(table, look_up, *_):
    weights = tf1.Variable(tf.ones([DIM, 1]), use_resource=True)
    layer = tf.recompute_grad(lambda rows: tf.tanh(rows @ weights / 4))
    rows = look_up(tf.constant(KEYS))
    loss = tf.reduce_sum(layer(rows) ** 2)
    before = tf1.get_default_graph().get_operations()
    gradients = tf.gradients(loss, [table, weights])
    new = set(tf1.get_default_graph().get_operations()) - set(before)
    if hasattr(table, "table_handle"):
        assert not [
            op for op in new if op.type == "ReadVariableOp" and op.inputs[0] is table.handle
        ]
    return loss, gradients, [table, weights]


def unconnected(table, look_up, another, _):
    loss = tf.reduce_sum(look_up(tf.constant(KEYS)) ** 2)
    gradients = tf.gradients(loss, [table, another], unconnected_gradients="zero")
    return loss, gradients, [table, another]


@pytest.mark.parametrize("gradients_of", [recomputed, unconnected])
@pytest.mark.parametrize("make", TABLES)
def test_training_is_that_of_a_variable(make, gradients_of):
    losses = losses_of(make, gradients_of)
    assert losses[0] > losses[-1]
    np.testing.assert_allclose(losses, losses_of(plain, gradients_of), rtol=1e-5)
