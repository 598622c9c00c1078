# SPDX-License-Identifier: Apache-2.0
"""An adaptive column, trained on this rank's part of each batch."""

import numpy as np

import sok_compat.deeprec as tf
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

tf.config.experimental.enable_distributed_strategy("collective")
tf.set_random_seed(1)
rng = np.random.default_rng(3)
NUM_STEPS, BATCH, NUM_KEYS = 4, 8, 20
IDS = rng.integers(0, NUM_KEYS, [NUM_STEPS, BATCH, 2])
MASKS = rng.integers(0, 2, [NUM_STEPS, BATCH, 2])


def layer(ids, masks, partition_num, ev_option):
    """[batch, 3]"""
    column = tf.feature_column.categorical_column_with_adaptive_embedding(
        "id", 5, tf.string, partition_num, ev_option
    )
    column = tf.feature_column.embedding_column(column, 3, "sum", tf.ones_initializer())
    features, masks = {"id": tf.as_string(ids)}, {"id": tf.reshape(masks, [-1])}
    return tf.feature_column.input_layer(features, [column], adaptive_mask_tensors=masks)


def trained(partition_num, filter_freq):
    """What the layer gives after each step for all ids, in both variables."""
    option = tf.EmbeddingVariableOption(filter_option=tf.CounterFilter(filter_freq))
    ids = tf.placeholder(tf.int64, [None, 2])
    masks = tf.placeholder(tf.int32, [None, 2])
    output = layer(ids, masks, partition_num, option)
    factors = tf.constant([[1.0, 2.0, 3.0]]) * tf.cast(ids[:, :1] + 1, tf.float32)
    loss = tf.reduce_mean(tf.reduce_sum(output * factors + output**2, 1))
    step = tf.train.AdagradOptimizer(0.3).minimize(loss, tf.train.get_or_create_global_step())
    every = np.arange(NUM_KEYS).reshape(-1, 2)
    (ordinary,) = [v for v in tf.trainable_variables() if "hash_weights" in v.name]
    found = []
    with tf.train.MonitoredTrainingSession(config=session_config(rewrites=False)) as session:
        for batch, mask in zip(IDS, MASKS):
            session.run(step, {ids: batch[RANK::SIZE], masks: mask[RANK::SIZE]})
            for of_variable in (0, 1):
                fed = {ids: every, masks: np.full_like(every, of_variable)}
                found.append(session.run(output, fed))
            found.append(session.run(ordinary))
    return found


results = {}
for arguments in ((None, 0), (2, 0), (None, 2)):
    with tf.Graph().as_default():
        results[arguments] = trained(*arguments)
report(results)
