# SPDX-License-Identifier: Apache-2.0
"""A table and a dense layer as the scripts of MonitoredTrainingSession and estimators have them."""

import numpy as np
import tensorflow as tf

import sok_compat as sok
from tests.distributed.workers.global_batch import GLOBAL_BATCH
from tests.distributed.workers.ranks import RANK, SIZE, hvd

tf1 = tf.compat.v1
SLOTS, DIM = 2, 4
NUM_BATCHES = 6
KEYS = np.random.default_rng(0).integers(-20, 20, [NUM_BATCHES, GLOBAL_BATCH, SLOTS, 1]) * (
    10**12 + 1
)
LABELS = (KEYS.sum(axis=(2, 3)) > 0).astype(np.float32)


def batches(num_batches=NUM_BATCHES):
    """A dataset of this rank's part of each batch."""
    mine = slice(RANK, None, SIZE)
    parts = KEYS[:num_batches, mine], LABELS[:num_batches, mine]
    return tf.data.Dataset.from_tensor_slices(parts).map(lambda k, labels: ({"keys": k}, labels))


def logits_of(features, training):
    """The logits of samples; makes the table and the dense layer."""
    sok.Init(global_batch_size=GLOBAL_BATCH, seed=4)
    layer = sok.All2AllDenseEmbedding(1000, DIM, SLOTS, 1, use_hashtable=True)
    rows = tf.reshape(layer(features["keys"], training=training), [-1, SLOTS * DIM])
    # Other values on each rank, until they are broadcast.
    first = tf1.constant_initializer(np.linspace(0, 1, SLOTS * DIM) + RANK)
    weights = tf1.get_variable("weights", [SLOTS * DIM, 1], initializer=first)
    return tf.squeeze(rows @ weights, axis=1), layer


def loss_of(labels, logits):
    """This rank's part of the mean over the global batch."""
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_sum(losses) / GLOBAL_BATCH


def train_op_of(loss, make_table_optimizer):
    """Updates the table in its scope, and the dense layer with gradients summed over ranks."""
    tables, others = sok.split_embedding_variable_from_others(tf1.trainable_variables())
    gradients = tf.gradients(loss, tables + others)
    with sok.OptimizerScope(tables):
        train_tables = make_table_optimizer().apply_gradients(zip(gradients, tables))
    with tf.control_dependencies([train_tables]):
        dense = gradients[len(tables) :]
        sums = [hvd.allreduce(g, op=hvd.Sum) if hvd else tf.identity(g) for g in dense]
    return tf1.train.GradientDescentOptimizer(0.1).apply_gradients(
        zip(sums, others), global_step=tf1.train.get_or_create_global_step()
    )


def broadcast_hooks():
    """What Horovod scripts give every session."""
    return [hvd.BroadcastGlobalVariablesHook(0)] if hvd else []
