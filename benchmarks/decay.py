# SPDX-License-Identifier: Apache-2.0
"""Adam that moves all rows: it costs the rows in use, whatever capacity was declared."""

import contextlib

import numpy as np
import tensorflow as tf

import sok_compat as sok
from benchmarks.contender import (
    BATCH_FOR_MEAN,
    FIRST_VALUES,
    LEARNING_RATE,
    Contender,
    Parts,
    check_losses,
)
from benchmarks.tables import Comparison
from benchmarks.timing import interleaved_medians
from sok_compat.runtime.tf_versions import keras

tf1 = tf.compat.v1

NUM_ROWS = 200_000  # in use
CAPACITIES = (1, 10, 1000)  # times NUM_ROWS
KERAS_NAME = "Keras Adam, plain variable"
BAR = 1.5


def _sum_of_squares(vectors):
    return tf.reduce_sum(tf.square(vectors))


def make_ours(times, dim, num_threads):
    def build():
        first = [sok.Init(global_batch_size=BATCH_FOR_MEAN, seed=1)]
        keys = tf1.placeholder(tf.int64, [None, 1, 1])
        layer = sok.All2AllDenseEmbedding(
            NUM_ROWS * times, dim, 1, 1, embedding_initializer=FIRST_VALUES
        )
        vectors = layer(keys)
        variables = [layer.embedding_variable]
        loss = _sum_of_squares(vectors)
        slices = zip(tf.gradients(loss, variables), variables)
        train_op = sok.optimizers.Adam(LEARNING_RATE).apply_gradients(slices)
        return Parts([keys], {"train": train_op, "insert": vectors}, loss, first)

    return Contender(f"capacity {NUM_ROWS * times:,}", build, num_threads)


def _make_keras(dim, num_threads):
    def build():
        keys = tf1.placeholder(tf.int64, [None, 1, 1])
        rows = tf1.get_variable(
            "table", [NUM_ROWS, dim], initializer=FIRST_VALUES, use_resource=True
        )
        loss = _sum_of_squares(tf.nn.embedding_lookup(rows, keys))
        gradients = tf.gradients(loss, [rows])
        optimizer = keras.optimizers.legacy.Adam(LEARNING_RATE)
        train_op = optimizer.apply_gradients(zip(gradients, [rows]))
        return Parts([keys], {"train": train_op, "insert": tf.no_op()}, loss)

    return Contender(KERAS_NAME, build, num_threads)


def compare(dim, workload, num_threads, rounds):
    """[Comparison], one for each capacity; the batches are the workload's, folded to NUM_ROWS."""
    batches = [(batch.reshape(-1, 1, 1) % NUM_ROWS,) for batch in workload.batches()]
    with contextlib.ExitStack() as stack:
        contenders = [
            stack.enter_context(make_ours(times, dim, num_threads)) for times in CAPACITIES
        ]
        contenders.append(stack.enter_context(_make_keras(dim, num_threads)))
        for contender in contenders:
            contender.run("insert", np.arange(NUM_ROWS).reshape(-1, 1, 1))
        medians = interleaved_medians(contenders, "train", batches, rounds)
        check_losses(contenders, batches[0])
    return [
        Comparison(
            f"{NUM_ROWS:,} rows of dim {dim} in use, {name}",
            {name: medians[name], KERAS_NAME: medians[KERAS_NAME]},
            {KERAS_NAME: BAR},
        )
        for name in (contender.name for contender in contenders[:-1])
    ]
