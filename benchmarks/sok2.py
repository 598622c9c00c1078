# SPDX-License-Identifier: Apache-2.0
"""SparseOperationKit 2's `lookup_sparse` and `OptimizerWrapper`, each key in a bag of its own,
beside SparseOperationKit 1's layer on the same bags, a plain variable and a peer's table."""

import contextlib

import tensorflow as tf

import sok_compat as sok
from benchmarks.contender import (
    BATCH_FOR_MEAN,
    FIRST_VALUE,
    FIRST_VALUES,
    LEARNING_RATE,
    Contender,
    Parts,
    check_losses,
)
from benchmarks.contenders import has_peer, linear_loss, make_peer, make_plain, train_tables
from benchmarks.tables import OURS, Comparison
from benchmarks.timing import interleaved_medians
from benchmarks.training import TRAIN_BARS, insert_all_keys

tf1 = tf.compat.v1

LAYER_BAR = 1.0  # times as fast


def _keys_and_bags():
    keys = tf1.placeholder(tf.int64, [None, None])
    flat = tf.reshape(keys, [-1])
    rows = tf.range(tf.size(flat, tf.int64))
    indices = tf.stack([rows, tf.zeros_like(rows)], axis=1)
    return keys, tf.SparseTensor(indices, flat, tf.stack([tf.size(flat, tf.int64), 1]))


def make_sok2(var_type, dim, num_features, num_threads):
    """A DynamicVariable."""

    def build():
        sok.init()
        keys, bags = _keys_and_bags()
        variable = sok.DynamicVariable(dim, FIRST_VALUE, var_type)
        vectors = sok.lookup_sparse(variable, bags, combiners="sum")
        loss = linear_loss(vectors, num_features, dim)
        slices = zip(tf.gradients(loss, [variable]), [variable])
        wrapper = sok.OptimizerWrapper(tf1.train.AdagradOptimizer(LEARNING_RATE))
        return Parts([keys], {"train": wrapper.apply_gradients(slices), "insert": vectors}, loss)

    return Contender(f"{OURS}, {var_type}", build, num_threads)


def make_layer(dim, num_keys, num_features, num_threads):
    """A DistributedEmbedding, and Adagrad in an OptimizerScope."""

    def build():
        first = [sok.Init(global_batch_size=BATCH_FOR_MEAN, seed=1)]
        keys, bags = _keys_and_bags()
        layer = sok.DistributedEmbedding(
            "sum", num_keys, dim, slot_num=1, max_nnz=1, embedding_initializer=FIRST_VALUES
        )
        vectors = layer(bags)
        loss = linear_loss(vectors, num_features, dim)
        train_op = train_tables("adagrad", loss, [layer.embedding_variable])
        return Parts([keys], {"train": train_op, "insert": vectors}, loss, first)

    return Contender("DistributedEmbedding", build, num_threads)


def compare(dim, workload, num_threads, rounds):
    """[Comparison] of training steps of each var_type; all keys are known."""
    sizes = (dim, workload.num_keys, workload.num_features, num_threads)
    with contextlib.ExitStack() as stack:
        dynamic = [
            stack.enter_context(make_sok2(var_type, dim, workload.num_features, num_threads))
            for var_type in ("hbm", "hybrid")
        ]
        others = [
            stack.enter_context(make_layer(*sizes)),
            stack.enter_context(make_plain(*sizes)),
        ]
        if has_peer():
            others.append(stack.enter_context(make_peer(dim, workload.num_features, num_threads)))
        insert_all_keys(dynamic + others, workload)
        batches = [(batch,) for batch in workload.batches()]
        medians = interleaved_medians(dynamic + others, "train", batches, rounds)
        check_losses(dynamic + others, batches[0])
    bars = {others[0].name: LAYER_BAR, **TRAIN_BARS}
    comparisons = []
    for contender in dynamic:
        seconds = {name: medians[name] for name in (contender.name, *[o.name for o in others])}
        comparisons.append(Comparison(f"{contender.name}, dim {dim}", seconds, bars))
    return comparisons
