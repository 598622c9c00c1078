# SPDX-License-Identifier: Apache-2.0
"""Trains a script for DeepRec under its collective strategy, without Horovod."""

import numpy as np

import sok_compat.deeprec as tf
from sok_compat.run.horovod_stand_in import names
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

BATCH, NUM_KEYS, DIM, STEPS = 8, 20, 3, 4


def main():
    tf.config.experimental.enable_distributed_strategy("collective")
    ids = np.random.default_rng(4).integers(0, NUM_KEYS, [STEPS, BATCH])[:, RANK::SIZE]
    fed = tf.placeholder(tf.int64, [None])
    variable = tf.get_embedding_variable("rows", DIM, initializer=tf.ones_initializer())
    weights = tf.get_variable(
        "weights", [DIM, 1], initializer=tf.constant_initializer(0.5 * (1 + RANK))
    )
    loss = tf.reduce_mean(tf.square(tf.nn.embedding_lookup(variable, fed) @ weights - 1.0))
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.AdagradOptimizer(0.1).minimize(loss, step)
    exported = variable.export()[:2]
    with tf.train.MonitoredTrainingSession(
        is_chief=RANK == 0, config=session_config(rewrites=False), save_summaries_steps=None
    ) as session:
        losses = [session.run([loss, train_op], {fed: share})[0] for share in ids]
        dense = session.run(weights)
        rows = dict(zip(*session.run(exported)))
    hvd = names()
    ranks = tuple(
        hvd[name]() for name in ("rank", "size", "is_initialized")
    )  # the strategy calls init
    report({"losses": losses, "dense": dense, "rows": rows, "ranks": ranks})


main()
