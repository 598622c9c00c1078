# SPDX-License-Identifier: Apache-2.0
"""The same training step on a table of ours, a plain TensorFlow variable, and a peer's table."""

import dataclasses
from typing import Callable

import tensorflow as tf

import sok_compat as sok

tf1 = tf.compat.v1

LEARNING_RATE = 0.1


@dataclasses.dataclass
class Contender:
    """A graph with its session. `train(keys)` and `look_up(keys)` run one step."""

    name: str
    session: tf1.Session
    keys: tf.Tensor  # int64 placeholder [batch, features]
    train_op: tf.Operation
    lookup_op: tf.Operation  # inserts nothing
    insert_op: tf.Operation

    def train(self, keys):
        self.session.run(self.train_op, {self.keys: keys})

    def look_up(self, keys):
        self.session.run(self.lookup_op, {self.keys: keys})

    def insert(self, keys):
        self.session.run(self.insert_op, {self.keys: keys})


def _loss(vectors):
    return tf.reduce_sum(tf.square(vectors)) / tf.cast(tf.shape(vectors)[0], tf.float32)


def _make(name, build: Callable, num_threads):
    """Builds a contender in a graph of its own; `build(keys)` gives its three ops."""
    graph = tf.Graph()
    with graph.as_default():
        keys = tf1.placeholder(tf.int64, [None, None], name="keys")
        train_op, lookup_op, insert_op, first = build(keys)
        initialize = tf1.global_variables_initializer()
        # .op: run the step, do not fetch megabytes to Python.
        ops = [
            op.op if isinstance(op, tf.Tensor) else op for op in (train_op, lookup_op, insert_op)
        ]
    config = tf1.ConfigProto(
        intra_op_parallelism_threads=num_threads, inter_op_parallelism_threads=num_threads
    )
    session = tf1.Session(graph=graph, config=config)
    for op in (*first, initialize):
        session.run(op)
    return Contender(name, session, keys, *ops)


def make_ours(optimizer, dim, num_keys, num_features, num_threads=2):
    """All2AllDenseEmbedding; `optimizer`: 'adagrad' (stock, in OptimizerScope) or 'lazy_adam'."""

    def build(keys):
        first = [sok.Init(global_batch_size=1, seed=1)]
        layer = sok.All2AllDenseEmbedding(num_keys, dim, slot_num=num_features, nnz_per_slot=1)
        vectors = layer(keys[:, :, tf.newaxis])
        variables = [layer.embedding_variable]
        gradients = tf.gradients(_loss(vectors), variables)
        if optimizer == "adagrad":
            with sok.OptimizerScope(variables):
                train_op = tf1.train.AdagradOptimizer(LEARNING_RATE).apply_gradients(
                    zip(gradients, variables)
                )
        else:
            train_op = sok.tf.keras.optimizers.LazyAdamOptimizer(LEARNING_RATE).apply_gradients(
                zip(gradients, variables)
            )
        return train_op, layer(keys[:, :, tf.newaxis], training=False), vectors, first

    return _make(f"sok_compat {optimizer}", build, num_threads)


def make_plain(dim, num_keys, num_threads=2):
    """A tf.Variable without hashing, and stock Adagrad."""

    def build(keys):
        variable = tf1.get_variable(
            "table",
            [num_keys, dim],
            initializer=tf1.random_uniform_initializer(-0.05, 0.05),
            use_resource=True,
        )
        vectors = tf.nn.embedding_lookup(variable, keys)
        train_op = tf1.train.AdagradOptimizer(LEARNING_RATE).minimize(_loss(vectors))
        return train_op, tf.nn.embedding_lookup(variable, keys), vectors, []

    return _make("plain TensorFlow adagrad", build, num_threads)


def make_peer(dim, num_threads=2):
    """tensorflow-recommenders-addons: embedding_lookup_unique and DynamicEmbeddingOptimizer.

    Raises:
      ImportError: it is not installed.
    """
    import tensorflow_recommenders_addons as tfra

    embedding = tfra.dynamic_embedding

    def build(keys):
        variable = embedding.get_variable(
            "table",
            key_dtype=tf.int64,
            value_dtype=tf.float32,
            dim=dim,
            devices=["/CPU:0"],
            initializer=tf1.random_uniform_initializer(-0.05, 0.05),
        )
        vectors, trainable = embedding.embedding_lookup_unique(
            variable, tf.reshape(keys, [-1]), return_trainable=True
        )
        vectors = tf.reshape(vectors, tf.concat([tf.shape(keys), [dim]], axis=0))
        optimizer = embedding.DynamicEmbeddingOptimizer(tf1.train.AdagradOptimizer(LEARNING_RATE))
        train_op = optimizer.minimize(_loss(vectors), var_list=[trainable])
        distinct, inverse = tf.unique(tf.reshape(keys, [-1]))
        lookup_op = tf.gather(variable.lookup(distinct), inverse)
        flat = tf.reshape(keys, [-1])
        initial_rows = tf.random.uniform([tf.size(flat), dim], -0.05, 0.05)
        return train_op, lookup_op, variable.upsert(flat, initial_rows), []

    return _make("recommenders-addons adagrad", build, num_threads)
