# SPDX-License-Identifier: Apache-2.0
"""Steps of a synthetic model on this rank; started by benchmarks.synthetic."""

import argparse
import json
import os

import numpy as np
import tensorflow as tf

from benchmarks.synthetic_models import MODELS
from benchmarks.timing import interleaved_medians
from sok_compat.distributed_embeddings.python.layers import dist_model_parallel as dmp
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding
from sok_compat.runtime.tf_versions import keras

OURS, PLAIN = "DistributedEmbedding", "plain Keras layers"
NUM_BATCHES = 4
WHATS = ("forward", "backward", "model")


class PlainEmbeddings(keras.layers.Layer):
    """As a Keras model has them: an Embedding for each table, and a sum."""

    def __init__(self, model):
        super().__init__()
        self._inputs = model.inputs()
        self._tables = [keras.layers.Embedding(*shape) for shape in model.shapes()]

    def call(self, ids):
        """[batch, width] of each input."""
        rows = [self._tables[table](one) for one, (table, _) in zip(ids, self._inputs)]
        return [tf.reduce_sum(one, 1) for one in rows]


def distributed_embeddings(model, arguments):
    """The layer of the benchmark."""
    inputs = model.inputs()
    workload = dmp.Workload(arguments.batch_size, [hotness for _, hotness in inputs])
    return dmp.DistributedEmbedding(
        [Embedding(*shape, combiner="sum") for shape in model.shapes()],
        strategy=arguments.strategy,
        column_slice_threshold=arguments.column_slice_threshold,
        input_table_map=[table for table, _ in inputs],
        workload=workload,
    )


class Contender:
    """One way to have the embeddings, and a model on top of them.

    name: of it.
    """

    def __init__(self, name, embeddings, model):
        self.name, self._embeddings = name, embeddings
        layers = [keras.layers.Dense(width, "relu") for width in model.mlp]
        self._mlp = keras.Sequential([*layers, keras.layers.Dense(1)])
        legacy = keras.optimizers.legacy
        self._optimizers = [legacy.Adagrad(0.01), legacy.Adagrad(0.01)]
        steps = self._forward, self._backward, self._model
        self._steps = {what: tf.function(step) for what, step in zip(WHATS, steps)}

    def run(self, what, ids, numbers, labels):
        """One step of WHATS."""
        self._steps[what](ids, numbers, labels).numpy()

    def _forward(self, ids, numbers, labels):
        del numbers, labels
        return tf.concat(self._embeddings(ids), 1)[0, 0]

    def _backward(self, ids, numbers, labels):
        del numbers, labels
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.concat(self._embeddings(ids), 1))
        return self._trained(tape, loss, self._embeddings.trainable_variables, 0)

    def _model(self, ids, numbers, labels):
        with tf.GradientTape() as tape:
            logits = self._mlp(tf.concat([*self._embeddings(ids), numbers], 1))
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(losses)
        variables = self._embeddings.trainable_variables + self._mlp.trainable_variables
        return self._trained(tape, loss, variables, 1)

    def _trained(self, tape, loss, variables, optimizer):
        gradients = dmp.DistributedGradientTape(tape).gradient(loss, variables)
        self._optimizers[optimizer].apply_gradients(zip(gradients, variables))
        return loss


def batches_of_rank(model, batch_size, rank, size):
    """[(ids, numbers, labels)] of this rank's part of each batch."""
    part = slice(batch_size * rank // size, batch_size * (rank + 1) // size)
    batches = []
    for seed in range(NUM_BATCHES):
        ids, numbers, labels = model.batch(batch_size, np.random.default_rng(seed))
        batches.append((
            [tf.constant(one[part]) for one in ids],
            tf.constant(numbers[part]),
            tf.constant(labels[part]),
        ))  # fmt: skip
    return batches


def main():
    """Writes {contender: {what: milliseconds}}, of rank 0."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--result", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--scale", type=float, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--strategy", required=True)
    parser.add_argument("--column-slice-threshold", type=int)
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    rank, size = int(os.environ.get("HOROVOD_RANK", 0)), int(os.environ.get("HOROVOD_SIZE", 1))
    model = MODELS[arguments.model].scaled(arguments.scale)
    contenders = [Contender(OURS, distributed_embeddings(model, arguments), model)]
    if size == 1:
        contenders.append(Contender(PLAIN, PlainEmbeddings(model), model))
    batches = batches_of_rank(model, arguments.batch_size, rank, size)
    times = {contender.name: {} for contender in contenders}
    for what in WHATS:
        medians = interleaved_medians(contenders, what, batches, arguments.rounds)
        for name, seconds in medians.items():
            times[name][what] = seconds * 1e3
    if rank == 0:
        with open(arguments.result, "w") as stream:
            json.dump(times, stream)


if __name__ == "__main__":
    main()
