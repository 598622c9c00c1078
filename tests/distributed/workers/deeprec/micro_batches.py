# SPDX-License-Identifier: Apache-2.0
"""Trains with `micro_batch_num`; the argument is the number of micro batches in a step."""

import sys

import numpy as np

import sok_compat.deeprec as tf
from tests.distributed.workers.ranks import RANK, SIZE, report

tf.config.experimental.enable_distributed_strategy("collective")
NUMBER = int(sys.argv[1])
ROWS = dict(
    ids=np.random.default_rng(0).integers(0, 9, [24, 2]).astype(np.int64),
    wanted=np.random.default_rng(1).normal(size=24).astype(np.float32),
)
WAITING = tf.EmbeddingVariableOption(  # keys read as if they had rows
    init_option=tf.InitializerOption(default_value_no_permission=1.0),
    filter_option=tf.CounterFilter(2),
)
OPTIMIZERS = {
    "AdamAsync": lambda: tf.train.AdamAsyncOptimizer(0.1),
    "Adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "Momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
}


class Runs(tf.train.SessionRunHook):
    """Counts what a hook of a script sees."""

    number = 0

    def after_run(self, run_context, run_values):
        del run_context, run_values
        self.number += 1


def train(optimizer):
    """(rows and variables after training, global step, runs of a hook)."""
    tf.set_random_seed(1)
    ones = tf.ones_initializer()
    tables = [
        tf.get_embedding_variable("a", 4),
        tf.get_embedding_variable("b", 4),
        tf.get_embedding_variable("d", 4, initializer=ones, ev_option=WAITING),
        tf.get_variable("c", initializer=tf.reshape(tf.range(36.0), [9, 4]) / 36.0),
    ]
    rows = tf.data.Dataset.from_tensor_slices(ROWS).batch(12 // SIZE // NUMBER).shard(SIZE, RANK)
    batch = tf.data.make_one_shot_iterator(rows).get_next()
    ids = [batch["ids"][:, 0], *[batch["ids"][:, 1]] * 3]
    looked_up = tf.concat([*map(tf.nn.embedding_lookup, tables, ids)], axis=1)
    logits = tf.layers.dense(looked_up, 1, kernel_initializer=ones)[:, 0]
    loss = tf.reduce_mean((logits - batch["wanted"]) ** 2)
    step, runs = tf.train.get_or_create_global_step(), Runs()
    train_op = OPTIMIZERS[optimizer]().minimize(loss, global_step=step)
    everything = [tf.nn.embedding_lookup(table, tf.range(9)) for table in tables]
    everything += tf.trainable_variables("dense")
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.micro_batch_num = NUMBER
    with tf.train.MonitoredTrainingSession(config=config, hooks=[runs]) as session:
        for _ in range(2):
            session.run([train_op, loss])
        return session.run([everything, step]), runs.number


if NUMBER > 1:  # before the graphs
    tf.OptimizerOptions(micro_batch_num=NUMBER)
trained = {}
for name in OPTIMIZERS:
    with tf.Graph().as_default():
        trained[name] = train(name)
report(trained)
