# SPDX-License-Identifier: Apache-2.0
"""Embedding variables with filters and eviction on several ranks, each with its part of a batch."""

import os

import numpy as np

os.environ["TF_RECORD_FREQ"] = "1"
import sok_compat.deeprec as tf  # noqa: E402 - it reads the switch when variables are made
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config  # noqa: E402

tf.config.experimental.enable_distributed_strategy("collective")

STEPS, GLOBAL_BATCH, BAG, NUM_KEYS = 6, 8, 5, 14
OPTIONS = {
    "counted": {},
    "filter": dict(filter_option=tf.CounterFilter(5)),
    "bloom": dict(filter_option=tf.CBFFilter(5, 1000, 0.001)),
    "steps": dict(filter_option=tf.CounterFilter(2), evict_option=tf.GlobalStepEvict(2)),
    "weights": dict(evict_option=tf.L2WeightEvict(0.1)),
}


def initializer_of(name):
    """One that the op library draws, or that TensorFlow does, with a seed or without."""
    return {
        "counted": tf.orthogonal_initializer(),
        "filter": lambda shape, dtype=None: 0.3 * tf.random.normal(shape),
        "bloom": tf.glorot_uniform_initializer(seed=2),
        "steps": lambda shape, dtype=None: 0.01 * tf.ones(shape, tf.float32),
    }.get(name)


def make_batches():
    """[ids] of this rank: some keys come often, some once."""
    rng = np.random.default_rng(4)
    ids = np.minimum(rng.geometric(0.2, [STEPS, GLOBAL_BATCH, BAG]), NUM_KEYS)
    ids[-3:][ids[-3:] % 3 == 0] = 1  # these do not come any more
    return [batch[RANK::SIZE] for batch in ids]


def train(ids):
    """(what to run in a step, {option: its variable})."""
    step = tf.train.get_or_create_global_step()
    tf.stack([tf.zeros([])] * (RANK + 1))  # so that the graphs of ranks differ
    variables, losses = {}, []
    bags = tf.RaggedTensor.from_tensor(ids, row_splits_dtype=tf.int64)
    weights = tf.RaggedTensor.from_row_splits(
        tf.cast(bags.values % 3 + 1, tf.float32), bags.row_splits
    )
    for name, settings in OPTIONS.items():
        option = tf.EmbeddingVariableOption(**settings)
        variables[name] = tf.get_embedding_variable(
            name, 3, initializer=initializer_of(name), ev_option=option
        )
    params = list(variables.values())
    pooled = tf.nn.group_embedding_lookup_sparse(params, [bags] * len(params), ["sum"] * 5)
    weighted = tf.nn.group_embedding_lookup_sparse(
        params, [bags] * len(params), ["mean"] * 5, sp_weights=[weights] * len(params)
    )
    single = [tf.nn.embedding_lookup(param, ids[:, 0]) for param in params]
    for found in (*pooled, *weighted, *single):
        losses.append(tf.reduce_mean(tf.square(found - 0.3)))
    optimizer = tf.train.AdagradOptimizer(0.1)
    return [tf.stack(losses), optimizer.minimize(tf.add_n(losses), step)], variables


def main():
    ids = tf.placeholder(tf.int64, [None, BAG])
    run, variables = train(ids)
    evictions = [op for v in variables.values() if (op := v.before_save()) is not None]
    contents = {name: v.export() for name, v in variables.items()}
    waiting = {name: v.waiting_keys() for name, v in variables.items()}
    every_key = {
        name: (v.get_frequency(range(NUM_KEYS + 2)), v.get_version(range(NUM_KEYS + 2)))
        for name, v in variables.items()
    }
    with tf.train.MonitoredTrainingSession(config=session_config(rewrites=False)) as session:
        seen = {"losses": [session.run(run, {ids: batch})[0] for batch in make_batches()]}
        seen["before"] = session.run([contents, waiting, every_key])
        session.run(evictions)
        seen["after"] = session.run([contents, waiting, every_key])
        seen["again"] = session.run(run, {ids: make_batches()[0]})[0]
        seen["end"] = session.run([contents, waiting, every_key])
    report(seen)


if __name__ == "__main__":
    main()
