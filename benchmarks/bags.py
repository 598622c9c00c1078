# SPDX-License-Identifier: Apache-2.0
"""Ragged bags, forward and backward, beside tf.nn.safe_embedding_lookup_sparse."""

import numpy as np
import tensorflow as tf

import sok_compat as sok
from benchmarks.contender import BATCH_FOR_MEAN, FIRST_VALUES, Contender, Parts, check_losses
from benchmarks.contenders import PLAIN_NAME
from benchmarks.tables import OURS, Comparison
from benchmarks.timing import interleaved_medians

tf1 = tf.compat.v1

LONGEST = 50  # keys of a bag
BAR = 2.0


def _placeholders():
    # Of the parts, not a sparse placeholder: what is fed then is the same for all contenders.
    return [
        tf1.placeholder(tf.int64, [None, 2]),
        tf1.placeholder(tf.int64, [None]),
        tf1.placeholder(tf.int64, [2]),
    ]


def _there_and_back(vectors, variable):
    """The pooled rows, and the gradient of their squares for each row."""
    (gradient,) = tf.gradients(tf.reduce_sum(tf.square(vectors)), [variable])
    return [vectors, gradient.values, gradient.indices]


def _sum_of(step):
    """A number that depends on all values there and back."""
    vectors, gradients, _ = step
    return tf.reduce_sum(tf.square(vectors)) + tf.reduce_sum(gradients)


def make_ours(combiner, dim, num_keys, num_threads):
    """DistributedEmbedding."""

    def build():
        first = [sok.Init(global_batch_size=BATCH_FOR_MEAN, seed=1)]
        inputs = _placeholders()
        layer = sok.DistributedEmbedding(
            combiner, num_keys, dim, 1, LONGEST, embedding_initializer=FIRST_VALUES
        )
        vectors = layer(tf.SparseTensor(*inputs))
        step = _there_and_back(vectors, layer.embedding_variable)
        return Parts(inputs, {"step": step, "insert": vectors}, _sum_of(step), first)

    return Contender(OURS, build, num_threads)


def make_plain(combiner, dim, num_keys, num_threads):
    """A tf.Variable without hashing; keys are row numbers."""

    def build():
        inputs = _placeholders()
        rows = tf1.get_variable(
            "table", [num_keys, dim], initializer=FIRST_VALUES, use_resource=True
        )
        bags = tf.SparseTensor(*inputs)
        vectors = tf.nn.safe_embedding_lookup_sparse(rows, bags, combiner=combiner)
        step = _there_and_back(vectors, rows)
        return Parts(inputs, {"step": step}, _sum_of(step))

    return Contender(PLAIN_NAME, build, num_threads)


def make_batches(workload):
    """[(indices, keys, shape)]: the workload's keys in bags of 1 to LONGEST."""
    random = np.random.default_rng(workload.seed)
    batches = []
    for keys in workload.batches():
        keys = keys.reshape(-1)
        sizes = random.integers(1, LONGEST + 1, len(keys))
        ends = np.cumsum(sizes)
        sizes = sizes[: np.searchsorted(ends, len(keys), side="right")]
        rows = np.repeat(np.arange(len(sizes)), sizes)
        columns = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        batches.append(
            (np.stack([rows, columns], axis=1), keys[: len(rows)], np.array([len(sizes), LONGEST]))
        )
    return batches


def compare(dim, workload, num_threads, rounds):
    """[Comparison] for each combiner."""
    batches = make_batches(workload)
    comparisons = []
    for combiner in ("mean", "sum"):
        with make_ours(combiner, dim, workload.num_keys, num_threads) as ours:
            for batch in batches:
                ours.run("insert", *batch)
            with make_plain(combiner, dim, workload.num_keys, num_threads) as plain:
                medians = interleaved_medians([ours, plain], "step", batches, rounds)
                check_losses([ours, plain], batches[0])
        comparisons.append(
            Comparison(f"{combiner} of 1 to {LONGEST} keys, dim {dim}", medians, {PLAIN_NAME: BAR})
        )
    return comparisons
