# SPDX-License-Identifier: Apache-2.0
"""A DLRM in TensorFlow 2's style. `python -m examples.sok2.train --help`"""

import argparse
import functools
import os
import sys
import time

from examples import console

if __name__ == "__main__":
    console.quiet_tensorflow()

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import keras

DIM, NUM_DENSE, SMALL = 8, 4, 50  # floats in a row, dense features, keys of the static variable
HOTNESS = [1, 3, 2]  # most keys of a sample
COMBINERS = ["sum", "mean", "sum"]


class Dlrm(tf.Module):
    """Rows of keys and dense features, their dot products, and an upper network."""

    def __init__(self):
        super().__init__()
        self.tables = [
            sok.DynamicVariable(DIM, var_type="hbm", name="users"),
            sok.DynamicVariable(DIM, "uniform", var_type="hybrid", name="words"),
            sok.Variable(shape=(SMALL, DIM), initializer="glorot_uniform", name="devices"),
        ]
        self.bottom = _layers([16, DIM], NUM_DENSE, seed=1)
        num_vectors = 1 + len(self.tables)
        self.top = _layers([16, 1], DIM + num_vectors * (num_vectors - 1) // 2, seed=2)

    @property
    def dense_variables(self):
        """Variables that are whole on every rank."""
        return sok.filter_variables(self.trainable_variables)[1]

    def __call__(self, ids, dense):
        """Logits [batch]."""
        rows = sok.lookup_sparse(self.tables, ids, combiners=COMBINERS)
        features = _through(self.bottom, dense)
        vectors = tf.stack([features, *rows], 1)
        dots = tf.matmul(vectors, vectors, transpose_b=True)
        num_vectors = vectors.shape[1]
        pairs = [dots[:, i, j] for i in range(num_vectors) for j in range(i)]
        return _through(self.top, tf.concat([features, tf.stack(pairs, 1)], 1))[:, 0]


def _layers(units, num_inputs, seed):
    """[(weights, biases)], the same on all ranks."""
    rng, layers = np.random.default_rng(seed), []
    for outputs in units:
        weights = rng.normal(size=(num_inputs, outputs)) / np.sqrt(num_inputs)
        layers.append((tf.Variable(weights, dtype=tf.float32), tf.Variable(tf.zeros([outputs]))))
        num_inputs = outputs
    return layers


def _through(layers, inputs):
    for weights, biases in layers[:-1]:
        inputs = tf.nn.relu(inputs @ weights + biases)
    weights, biases = layers[-1]
    return inputs @ weights + biases


def make_batch(step, batch):
    """(keys and lengths of each table's bags, dense features, clicks) of all ranks."""
    rng = np.random.default_rng(step)
    bags, logits = [], np.zeros(batch)
    for table, hotness in enumerate(HOTNESS):
        lengths = rng.integers(0, hotness + 1, batch)
        keys = (SMALL * rng.random(lengths.sum()) ** 2).astype(np.int64)
        taste = np.sin(keys * (table + 1.0))  # of a key, by which samples are clicked
        logits += np.bincount(np.repeat(np.arange(batch), lengths), taste, batch)
        is_dynamic = table < 2
        bags.append((keys * 10**9 * (-1) ** (keys % 2) if is_dynamic else keys, lengths))
    dense = rng.normal(size=(batch, NUM_DENSE)).astype(np.float32)
    logits += dense[:, 0]
    clicks = rng.random(batch) < 1 / (1 + np.exp(-2 * logits))
    return bags, dense, clicks.astype(np.float32)


def part_of(batch, rank, size):
    """The samples of a rank, as tensors."""
    bags, dense, clicks = batch
    begin, end = (len(clicks) * each // size for each in (rank, rank + 1))
    ids = []
    for keys, lengths in bags:
        ends = np.concatenate([[0], np.cumsum(lengths)])
        mine = keys[ends[begin] : ends[end]]
        ids.append(tf.RaggedTensor.from_row_lengths(tf.constant(mine), lengths[begin:end]))
    return ids, tf.constant(dense[begin:end]), tf.constant(clicks[begin:end])


def train(num_steps, batch, checkpoint=None, stop=None):
    """The mean losses of all ranks' samples, of each step.

    Args:
      num_steps: how many at most.
      batch: samples of all ranks together.
      checkpoint: a path, to go on from and to write; None: neither.
      stop: a console.StopRequest. Once a rank has it, all end after the same step.
    """
    sok.init()
    rank, size = sok.communication.rank(), sok.communication.num_ranks()
    say = functools.partial(print, flush=True) if rank == 0 else lambda text: None
    model = Dlrm()
    for_tables = sok.OptimizerWrapper(keras.optimizers.legacy.Adam(0.02))
    for_others = keras.optimizers.legacy.Adam(0.02)
    saved = tf.train.Checkpoint(model=model, for_tables=for_tables, for_others=for_others)
    if checkpoint and os.path.exists(f"{checkpoint}.index"):
        saved.read(checkpoint)
        say(f"goes on from {checkpoint}")

    @tf.function(reduce_retracing=True)
    def step(ids, dense, clicks, ends):
        with tf.GradientTape() as tape:
            logits = model(ids, dense)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=clicks, logits=logits)
            loss = tf.reduce_sum(losses) / batch
        others = model.dense_variables
        gradients = tape.gradient(loss, [*model.tables, *others])
        num_tables = len(model.tables)
        for_tables.apply_gradients(zip(gradients, model.tables))  # sums over ranks already
        summed = [sok.communication.allreduce(each, "sum") for each in gradients[num_tables:]]
        for_others.apply_gradients(zip(summed, others))
        return tf.unstack(sok.communication.allreduce(tf.stack([loss, ends]), "sum"))

    losses, num_ends, since = [], 0.0, time.perf_counter()
    for number in range(num_steps):
        ends = tf.constant(float(stop is not None and stop.is_set))
        loss, num_ends = step(*part_of(make_batch(number, batch), rank, size), ends)
        losses.append(float(loss))
        if number % 20 == 0:
            since, before = time.perf_counter(), since
            speed = f", {20 * batch / (since - before):,.0f} samples/s" if number else ""
            say(f"step {number}: loss {losses[-1]:.4f}{speed}")
        if num_ends > 0.0:
            break
    if checkpoint:
        saved.write(checkpoint)
        say(f"saved in {checkpoint}")
    return losses


def export(checkpoint, folder):
    """Writes a SavedModel of a checkpoint: from keys, row splits and dense features to the
    probabilities of clicks.
    """
    sok.init()
    tf1, restored = tf.compat.v1, []

    def build():
        model = Dlrm()
        inputs = {"dense": tf1.placeholder(tf.float32, [None, NUM_DENSE])}
        for part in ("keys", "splits"):
            for table in range(len(HOTNESS)):
                inputs[f"{part}_{table}"] = tf1.placeholder(tf.int64, [None])
        ids = [
            tf.RaggedTensor.from_row_splits(inputs[f"keys_{table}"], inputs[f"splits_{table}"])
            for table in range(len(HOTNESS))
        ]
        clicks = tf.sigmoid(model(ids, inputs["dense"]))
        restored.append(tf.train.Checkpoint(model=model).read(checkpoint))
        return inputs, {"clicks": clicks}

    def restore(session):
        restored[0].expect_partial().run_restore_ops(session)

    return sok.export_saved_model(folder, build, restore)


def parse_arguments(arguments):
    """The options; exits with status 2 where they make no sense."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=512, help="of all ranks together")
    parser.add_argument("--checkpoint", help="a path; goes on from there, and is written")
    parser.add_argument("--export", help="a new folder, for a SavedModel of the checkpoint")
    options = parser.parse_args(arguments)
    for name in ("steps", "batch_size"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be positive")
    if options.export and not options.checkpoint:
        parser.error("--export needs --checkpoint, of which it is a SavedModel")
    if options.export and os.path.exists(options.export):
        parser.error(f"--export: {options.export} already exists, and a new folder is needed")
    return options


def program(arguments, stop):
    """Trains, saves and exports, as the arguments say; returns the exit status."""
    options = parse_arguments(arguments)
    try:
        if options.checkpoint:
            os.makedirs(os.path.dirname(options.checkpoint) or ".", exist_ok=True)
    except OSError as error:
        return console.fail(f"--checkpoint: {error}")
    train(options.steps, options.batch_size, options.checkpoint, stop)
    if options.export and not stop.is_set:
        export(options.checkpoint, options.export)
        print(f"exported to {options.export}")
    return console.EXIT_OK


if __name__ == "__main__":
    sys.exit(console.run(program, sys.argv[1:]))
