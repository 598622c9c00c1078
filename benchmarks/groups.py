# SPDX-License-Identifier: Apache-2.0
"""One table a feature: a grouped lookup of DeepRec's API, its gradient and Adagrad, beside a lookup
of TensorFlow's for each feature, and beside one table that has as many keys."""

import contextlib
import dataclasses

import numpy as np
import tensorflow as tf

from benchmarks.contender import FIRST_VALUES, LEARNING_RATE, Contender, Parts, check_losses
from benchmarks.contenders import PLAIN_NAME
from benchmarks.tables import OURS, Comparison
from benchmarks.timing import interleaved_medians
from sok_compat.deeprec.lookups.group_lookup import group_embedding_lookup_sparse
from sok_compat.deeprec.optimizer_rules.train_optimizers import AdagradOptimizer
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable

tf1 = tf.compat.v1

ONE_TABLE = "one table"
KEYS_OF_A_TABLE = 100_000
DIMS = (4, 16, 64)
MAIN_DIM = 16
SKEWED_EXPONENT = 1.5  # half of all occurrences are of two keys
BARS = {2_048: 6.0, 16_384: 5.0}  # {batch size: times as fast as plain TensorFlow}
ONE_TABLE_BAR = 1 / 1.2


def _keys():
    """[number of features, batch]: those of a feature side by side, as input pipelines give them"""
    return tf1.placeholder(tf.int64, [None, None])


def _ids_of_features(keys, num_features):
    """A SparseTensor [batch, 1] for each feature."""
    batch_size = tf.shape(keys, tf.int64)[1]
    indices = tf.stack([tf.range(batch_size), tf.zeros([batch_size], tf.int64)], axis=1)
    shape = tf.stack([batch_size, 1])
    return [tf.SparseTensor(indices, ids, shape) for ids in tf.unstack(keys, num_features)]


def _loss(sums):
    """The squares of a linear model of the sum of all features: next to no work beside the
    embedding's, where vectors side by side, or a gradient for each of them, would be a third."""
    return tf.reduce_mean(tf.square(sums @ tf.constant(0.01, shape=[sums.shape[1], 1])))


def make_ours(dim, num_features, num_threads):
    """group_embedding_lookup_sparse on an embedding variable for each feature."""

    def build():
        keys = _keys()
        variables = [
            get_embedding_variable(f"v{i}", dim, initializer=FIRST_VALUES)
            for i in range(num_features)
        ]
        ids = _ids_of_features(keys, num_features)
        vectors = group_embedding_lookup_sparse(variables, ids, ["sum"] * num_features)
        loss = _loss(tf.add_n(vectors))
        return Parts([keys], {"train": AdagradOptimizer(LEARNING_RATE).minimize(loss)}, loss)

    return Contender(OURS, build, num_threads)


def make_one_table(dim, num_features, num_threads):
    """All features in one embedding variable, by keys of their own."""

    def build():
        keys = _keys()
        distinct = keys * num_features + tf.range(num_features, dtype=tf.int64)[:, tf.newaxis]
        flat = tf.reshape(distinct, [-1])
        bags = tf.RaggedTensor.from_row_splits(flat, tf.range(tf.size(flat, tf.int64) + 1))
        (vectors,) = group_embedding_lookup_sparse(
            [get_embedding_variable("v", dim, initializer=FIRST_VALUES)], [bags], ["sum"]
        )
        sums = tf.reduce_sum(tf.reshape(vectors, [num_features, -1, dim]), 0)
        loss = _loss(sums)
        return Parts([keys], {"train": AdagradOptimizer(LEARNING_RATE).minimize(loss)}, loss)

    return Contender(ONE_TABLE, build, num_threads)


def make_plain(dim, num_features, num_threads):
    """tf.nn.safe_embedding_lookup_sparse on a tf.Variable for each feature, and stock Adagrad."""

    def build():
        keys = _keys()
        vectors = [
            tf.nn.safe_embedding_lookup_sparse(
                tf1.get_variable(
                    f"v{i}", [KEYS_OF_A_TABLE, dim], initializer=FIRST_VALUES, use_resource=True
                ),
                ids,
                combiner="sum",
            )
            for i, ids in enumerate(_ids_of_features(keys, num_features))
        ]
        loss = _loss(tf.add_n(vectors))
        return Parts(
            [keys], {"train": tf1.train.AdagradOptimizer(LEARNING_RATE).minimize(loss)}, loss
        )

    return Contender(PLAIN_NAME, build, num_threads)


def compare_all(workload, num_threads, rounds):
    """[Comparison]: of all batch sizes and dims, and of keys that repeat more."""
    skewed = dataclasses.replace(workload, exponent=SKEWED_EXPONENT)
    cases = [(dim, batch_size, workload) for batch_size in BARS for dim in DIMS]
    cases += [(MAIN_DIM, batch_size, skewed) for batch_size in BARS]
    return [compare(*case, num_threads, rounds) for case in cases]


def compare(dim, batch_size, workload, num_threads, rounds):
    """A Comparison of training steps; all keys of the batches have been seen."""
    workload = dataclasses.replace(workload, batch_size=batch_size, num_keys=KEYS_OF_A_TABLE)
    batches = [(np.ascontiguousarray(batch.T),) for batch in workload.batches()]
    makers = (make_ours, make_plain, make_one_table)
    with contextlib.ExitStack() as stack:
        contenders = [
            stack.enter_context(make(dim, workload.num_features, num_threads)) for make in makers
        ]
        for contender in contenders:
            for batch in batches:
                contender.run("train", *batch)
        medians = interleaved_medians(contenders, "train", batches, rounds)
        check_losses(contenders, batches[0])
    bars = {PLAIN_NAME: BARS[batch_size], ONE_TABLE: ONE_TABLE_BAR}
    what = (
        f"{workload.num_features} tables, batch {batch_size:,}, dim {dim}, Zipf {workload.exponent}"
    )
    return Comparison(what, medians, bars)
