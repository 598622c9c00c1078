# SPDX-License-Identifier: Apache-2.0
"""`get_embedding`: what shares a name shares a table."""

import threading

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from tests.support.sessions import initialized_session

SETTINGS = dict(
    max_vocabulary_size_per_gpu=10, embedding_vec_size=2, slot_num=1, nnz_per_slot=1,
    dynamic_input=True,
)  # fmt: skip


def test_a_name_is_one_layer(sok):
    layer = sok.get_embedding("users", sok.All2AllDenseEmbedding, **SETTINGS)
    assert isinstance(layer, sok.All2AllDenseEmbedding)
    assert sok.get_embedding("users") is layer
    assert (
        sok.get_embedding(name="users", constructor=sok.DistributedEmbedding, slot_num=9) is layer
    )
    assert sok.get_embedding("items", sok.All2AllDenseEmbedding, **SETTINGS) is not layer


def test_shared_layer_trains_one_table(sok):
    outputs = [
        sok.get_embedding("users", sok.All2AllDenseEmbedding, **SETTINGS)(
            tf.constant(keys, tf.int64)
        )
        for keys in ([1, 2], [2, 3])
    ]
    (table,) = tf.compat.v1.trainable_variables()
    (gradient,) = tf.gradients(
        tf.reduce_sum(outputs[0]) + 10.0 * tf.reduce_sum(outputs[1]), [table]
    )
    step = tf.compat.v1.train.GradientDescentOptimizer(1.0).apply_gradients([(gradient, table)])
    with initialized_session() as session:
        before = session.run(outputs)
        np.testing.assert_array_equal(before[0][1], before[1][0])
        session.run(step)
        after = session.run(outputs)
        np.testing.assert_allclose(before[0] - after[0], [[1.0] * 2, [11.0] * 2], rtol=1e-5)
        assert session.run(table.num_keys()) == 3


def test_unknown_name_without_constructor(sok):
    sok.get_embedding("users", sok.All2AllDenseEmbedding, **SETTINGS)
    with pytest.raises(ValueError, match=r"named 'items'.*known: \['users'\].*constructor="):
        sok.get_embedding("items")


def test_a_constructor_that_fails_leaves_no_name(sok):
    with pytest.raises(ValueError, match="slot_num must be an int >= 1"):
        sok.get_embedding("users", sok.All2AllDenseEmbedding, **{**SETTINGS, "slot_num": 0})
    with pytest.raises(ValueError, match="known: none"):
        sok.get_embedding("users")


def test_each_graph_has_its_own_names():
    layers = []
    for _ in range(2):
        with tf.Graph().as_default():
            sok_compat.Init(global_batch_size=1)
            layers.append(
                sok_compat.get_embedding("users", sok_compat.All2AllDenseEmbedding, **SETTINGS)
            )
    assert layers[0] is not layers[1]


def test_branches_and_threads_of_a_graph_share_names(sok, graph):
    layer = sok.get_embedding("users", sok.All2AllDenseEmbedding, **SETTINGS)
    keys, seen = tf.constant([1], tf.int64), []

    def branch():
        seen.append(sok.get_embedding("users"))
        return seen[-1](keys, training=False)

    output = tf.cond(tf.constant(True), branch, lambda: tf.zeros([1, 2]))

    def other_thread():
        with graph.as_default():
            seen.append(sok.get_embedding("users"))

    thread = threading.Thread(target=other_thread)
    thread.start()
    thread.join()
    assert seen == [layer, layer]
    expected = layer(keys, training=False)
    with initialized_session() as session:
        np.testing.assert_array_equal(*session.run([output, expected]))
