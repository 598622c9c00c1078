# SPDX-License-Identifier: Apache-2.0
"""`TFDistributedEmbedding` in one process, beside tf.gather."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.runtime.tf_versions import variable_of
from sok_compat.sparse_operation_kit.embeddings.tf_distributed_embedding import (
    TFDistributedEmbedding,
)
from tests.support.sessions import initialized_session

ROWS = np.random.default_rng(0).normal(size=[6, 3]).astype(np.float32)


@pytest.mark.parametrize("ids", [[], [5], [[1, 1, 0], [4, 2, 1]], np.zeros([2, 1, 3], int)])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_rows_and_gradients(graph, ids, dtype):
    ids = np.asarray(ids, dtype)
    layer = TFDistributedEmbedding(6, 3, initializer=ROWS)
    output = layer(tf.constant(ids))
    assert output.shape.as_list() == [*ids.shape, 3]
    assert variable_of(layer.trainable_variables[0]) is layer.embedding_weights
    (gradient,) = tf.gradients(tf.reduce_sum(output), [layer.embedding_weights])
    with initialized_session() as session:
        actual, slices = session.run([output, tf.convert_to_tensor(gradient)])
    np.testing.assert_array_equal(actual, ROWS[ids])
    expected = np.repeat(np.bincount(ids.ravel(), minlength=6)[:, np.newaxis], 3, axis=1)
    np.testing.assert_array_equal(slices, expected)


@pytest.mark.parametrize("initializer", ["GlorotNormal", "ones", tf.ones])
def test_initializers(graph, initializer):
    if callable(initializer):
        initializer = initializer([6, 3])
    layer = TFDistributedEmbedding(6, 3, initializer, comm_options=None, name="mine")
    assert layer.name == "mine"
    layer.broadcast_variables()
    with initialized_session() as session:
        rows = session.run(layer.embedding_weights)
    assert rows.shape == (6, 3) and np.any(rows)


def test_works_in_eager_mode_and_in_a_function():
    layer = TFDistributedEmbedding(6, 3, ROWS)
    ids = tf.constant([[2, 0]])
    for call in (layer, tf.function(layer)):
        np.testing.assert_array_equal(call(ids), ROWS[[[2, 0]]])


@pytest.mark.parametrize("arguments, message", [
    ((0, 3), "vocabulary_size must be an int >= 1"),
    ((6, 2.5), "embedding_vec_size must be an int"),
    ((6, 4, ROWS), r"\[6, 4\]; got ndarray of shape \[6, 3\]"),
    ((6, 4, tf.zeros_initializer()), "must be the name of a Keras initializer"),
])  # fmt: skip
def test_arguments_out_of_range(graph, arguments, message):
    with pytest.raises(ValueError, match=message):
        TFDistributedEmbedding(*arguments)


@pytest.mark.parametrize("make", [tf.distribute.MirroredStrategy, tf.distribute.OneDeviceStrategy])
def test_under_a_strategy_of_one_replica(make):
    strategy = make(["CPU:0"] if make is tf.distribute.MirroredStrategy else "CPU:0")
    with strategy.scope():
        layer = TFDistributedEmbedding(6, 3, ROWS)
    np.testing.assert_array_equal(strategy.run(layer, [tf.constant([[2, 0]])]), ROWS[[[2, 0]]])
