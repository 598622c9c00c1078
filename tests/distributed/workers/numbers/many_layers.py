# SPDX-License-Identifier: Apache-2.0
"""Trains layers of different dims beside Horovod's own collectives; counts what was exchanged.

Arguments: one JSON object for each graph, trained one after the other; see `Settings`.
"""

import dataclasses
import json
import sys
import time
from typing import Optional

import numpy as np
import tensorflow as tf

import sok_compat as sok
from benchmarks.least_bytes import least_bytes
from tests.distributed.workers.ranks import RANK, SIZE, hvd, report, session_config

SLOTS = 2
WARM_UP = 10


@dataclasses.dataclass
class Settings:
    """One graph and how it is trained."""

    layers: int = 12
    combiner: Optional[str] = None  # of a sparse layer; None: a dense layer
    nnz: int = 3  # keys of a slot
    steps: int = 20
    batch: int = 2  # of this rank
    keys: int = 1000
    threads: int = 2
    evaluate_every: int = 0  # steps; 0: never
    with_horovod: bool = True  # allreduces in the same step


class Model:
    """The graph of one Settings."""

    def __init__(self, settings):
        sok.Init(global_batch_size=settings.batch * SIZE, seed=5)
        self.inputs = tf.compat.v1.placeholder(tf.int64, [None, SLOTS, settings.nnz])
        layers = [make_layer(settings, 2 + 2 * i) for i in range(settings.layers)]
        self.dims = [layer.embedding_vec_size for layer in layers]
        inputs = as_bags(self.inputs, settings.nnz) if settings.combiner else self.inputs
        outputs = [layer(inputs) for layer in layers]
        features = [
            tf.reduce_sum(tf.reshape(output, [settings.batch, -1, dim]), axis=1)
            for output, dim in zip(outputs, self.dims)
        ]
        dense = [tf.compat.v1.Variable(tf.ones([dim, 1])) for dim in self.dims]
        logits = tf.add_n([x @ w for x, w in zip(features, dense)])
        self.loss = tf.reduce_mean(logits**2)
        tables = [layer.embedding_variable for layer in layers]
        gradients = tf.gradients(self.loss, tables + dense)
        dense_gradients = gradients[len(tables) :]
        if settings.with_horovod:
            dense_gradients = [hvd.allreduce(gradient) for gradient in dense_gradients]
            self.loss = hvd.allreduce(self.loss)
        train_tables = sok.tf.keras.optimizers.LazyAdamOptimizer(1e-3).apply_gradients(
            zip(gradients[: len(tables)], tables)
        )
        train_dense = tf.compat.v1.train.GradientDescentOptimizer(1e-3).apply_gradients(
            zip(dense_gradients, dense)
        )
        self.step = [self.loss, train_tables, train_dense]
        self.read = [layer(inputs, training=False) for layer in layers]
        self.init = tf.compat.v1.global_variables_initializer()


def make_layer(settings, dim):
    if not settings.combiner:
        return sok.All2AllDenseEmbedding(settings.keys, dim, SLOTS, settings.nnz)
    return sok.DistributedEmbedding(settings.combiner, settings.keys, dim, SLOTS, settings.nnz)


def as_bags(keys, nnz):
    """The SparseTensor [batch * slots, nnz] of keys [batch, slots, nnz], all of them there."""
    rows = tf.reshape(keys, [-1, nnz])
    shape = tf.shape(rows, out_type=tf.int64)
    return tf.SparseTensor(tf.where(tf.ones_like(rows, tf.bool)), tf.reshape(rows, [-1]), shape)


def train(settings):
    """What a graph's steps exchanged after the first few, and what they must at least."""
    rng = np.random.default_rng(RANK)
    with tf.Graph().as_default() as graph:
        model = Model(settings)
        graph.finalize()
        with tf.compat.v1.Session(
            config=session_config(settings.threads, rewrites=False)
        ) as session:
            session.run(model.init)
            least, before, began = 0, None, time.time()
            for step in range(settings.steps):
                if step == min(WARM_UP, settings.steps - 1):
                    least, before = 0, sok.communication_stats()
                keys = rng.integers(0, settings.keys, [settings.batch, SLOTS, settings.nnz])
                loss = session.run(model.step, {model.inputs: keys})[0]
                bags = keys.reshape(-1, settings.nnz)
                is_pooled = settings.combiner is not None
                least += sum(least_bytes(bags, dim, RANK, SIZE, is_pooled) for dim in model.dims)
                if settings.evaluate_every and step % settings.evaluate_every == 0:
                    session.run(model.read, {model.inputs: keys})
            after = sok.communication_stats()
            seconds = time.time() - began
    return {
        "steps": settings.steps - min(WARM_UP, settings.steps - 1),
        "least_bytes": least,
        "exchanges": after.exchanges - before.exchanges,
        "bytes": sum(dataclasses.astuple(after)[2:]) - sum(dataclasses.astuple(before)[2:]),
        "loss": loss,
        "seconds": seconds,
    }


if __name__ == "__main__":
    report([train(Settings(**json.loads(argument))) for argument in sys.argv[1:]])
