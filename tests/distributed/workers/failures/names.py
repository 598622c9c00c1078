# SPDX-License-Identifier: Apache-2.0
"""Names whose answer depends on the ranks: the loss scale, the replica id, a broadcast."""

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.sparse_operation_kit.embeddings import TFDistributedEmbedding, embedding_ops
from sok_compat.sparse_operation_kit.tf.keras.mixed_precision import LossScaleOptimizer
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

STEPS = 4


def train_with_loss_scale():
    """[step] of (loss scale, this rank's row); in step 1 the last rank's gradient overflows."""
    sok.Init(global_batch_size=SIZE, seed=5)
    layer = sok.All2AllDenseEmbedding(10, 2, 1, 1, embedding_initializer="ones")
    table = layer.embedding_variable
    factor = tf.compat.v1.placeholder(tf.float32, [])
    # Each rank looks up the one key that it owns, so that no other rank sees its gradient.
    loss = tf.reduce_sum(layer(tf.constant([[[RANK]]], tf.int64))) * factor
    optimizer = LossScaleOptimizer(sok.optimizers.Adam(0.5), "dynamic")
    gradients = tf.gradients(optimizer.get_scaled_loss(loss), [table])
    step = optimizer.apply_gradients(zip(optimizer.get_unscaled_gradients(gradients), [table]))
    seen = []
    with tf.compat.v1.Session(config=session_config(2)) as session:
        session.run(tf.compat.v1.global_variables_initializer())
        for number in range(STEPS):
            overflows = number == 1 and RANK == SIZE - 1
            session.run(step, {factor: np.inf if overflows else 1.0})
            scale, (_, rows) = session.run([optimizer.loss_scale(), table.export()])
            seen.append((float(scale), rows.tolist()))
    return seen


def broadcast_error():
    """What TFDistributedEmbedding.broadcast_variables raises; None: nothing."""
    try:
        TFDistributedEmbedding(4, 2).broadcast_variables()
    except RuntimeError as error:
        return str(error)
    return None


if __name__ == "__main__":
    comm_tool = embedding_ops._get_comm_tool()
    replica = (comm_tool, embedding_ops.get_global_replica_id(comm_tool))
    report({"training": train_with_loss_scale(), "replica": replica, "error": broadcast_error()})
