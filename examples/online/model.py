# SPDX-License-Identifier: Apache-2.0
"""The model of the trainer and of the server: items -> the chance of a click."""

import sparse_operation_kit as sok
import tensorflow.compat.v1 as tf

from examples.online.stream import NUM_SLOTS

DIM = 4


def build(training=False):
    """(inputs, outputs), as sok.export_saved_model and Follower take it."""
    sok.Init(global_batch_size=1)
    items = tf.placeholder(tf.int64, [None, NUM_SLOTS], name="items")
    layer = sok.All2AllDenseEmbedding(
        1_000_000, DIM, slot_num=NUM_SLOTS, nnz_per_slot=1, embedding_initializer="zeros"
    )
    rows = layer(items[:, :, tf.newaxis], training=training)
    bias = tf.get_variable("bias", [], initializer=tf.zeros_initializer())
    logits = tf.reduce_sum(rows, axis=[1, 2, 3]) + bias
    num_keys = layer.embedding_variable.num_keys()
    outputs = {"logits": logits, "chances": tf.sigmoid(logits), "num_keys": tf.identity(num_keys)}
    return {"items": items}, outputs
