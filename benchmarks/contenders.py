# SPDX-License-Identifier: Apache-2.0
"""The same step on a table of ours, a plain TensorFlow variable, and a peer's table.

Each has the ops `train`, `look_up` (inserts nothing) and `insert`, of keys [batch, features]; the
peer also `look_up_repeats`, which does not make keys distinct first.
"""

import functools

import tensorflow as tf

import sok_compat as sok
from benchmarks.contender import (
    BATCH_FOR_MEAN,
    FIRST_VALUE,
    FIRST_VALUES,
    LEARNING_RATE,
    Contender,
    Parts,
)
from benchmarks.tables import OURS

tf1 = tf.compat.v1

PEER_NAME = "recommenders-addons"
PLAIN_NAME = "plain TensorFlow"


def _keys():
    return tf1.placeholder(tf.int64, [None, None], name="keys")


def linear_loss(vectors, num_features, dim):
    """The squares of a linear model of all features: next to no work beside the embedding's."""
    features = tf.reshape(vectors, [-1, num_features * dim])
    weights = tf.constant(0.01, shape=[num_features * dim, 1])
    return tf.reduce_mean(tf.square(features @ weights))


def train_tables(optimizer, loss, variables):
    """The training op of our tables.

    Args:
      optimizer: 'adagrad' (stock, in OptimizerScope), 'row-wise adagrad' or 'lazy_adam'.
      loss: a scalar.
      variables: the tables.
    """
    slices = list(zip(tf.gradients(loss, variables), variables))
    if optimizer == "row-wise adagrad":
        return sok.optimizers.RowWiseAdagrad(LEARNING_RATE).apply_gradients(slices)
    if optimizer == "lazy_adam":
        return sok.tf.keras.optimizers.LazyAdamOptimizer(LEARNING_RATE).apply_gradients(slices)
    with sok.OptimizerScope(variables):
        return tf1.train.AdagradOptimizer(LEARNING_RATE).apply_gradients(slices)


def make_ours(optimizer, dim, num_keys, num_features, num_threads, row_dtype="float32"):
    """All2AllDenseEmbedding; `optimizer`: see train_tables, or None: it has no `train`."""

    def build():
        first = [sok.Init(global_batch_size=BATCH_FOR_MEAN, seed=1, row_dtype=row_dtype)]
        keys = _keys()
        layer = sok.All2AllDenseEmbedding(
            num_keys, dim, num_features, 1, embedding_initializer=FIRST_VALUES
        )
        inputs = keys[:, :, tf.newaxis]
        vectors = layer(inputs)
        loss = linear_loss(vectors, num_features, dim)
        ops = {"look_up": layer(inputs, training=False), "insert": vectors}
        if optimizer:
            ops["train"] = train_tables(optimizer, loss, [layer.embedding_variable])
        return Parts([keys], ops, loss, first)

    rows = "" if row_dtype == "float32" else row_dtype
    return Contender(" ".join(filter(None, [OURS, optimizer, rows])), build, num_threads)


def make_plain(dim, num_keys, num_features, num_threads):
    """A tf.Variable without hashing, and stock Adagrad; keys are row numbers."""

    def build():
        keys = _keys()
        rows = tf1.get_variable(
            "table", [num_keys, dim], initializer=FIRST_VALUES, use_resource=True
        )
        vectors = tf.nn.embedding_lookup(rows, keys)
        loss = linear_loss(vectors, num_features, dim)
        train_op = tf1.train.AdagradOptimizer(LEARNING_RATE).minimize(loss)
        look_up = tf.nn.embedding_lookup(rows, keys)
        return Parts([keys], {"train": train_op, "look_up": look_up, "insert": tf.no_op()}, loss)

    return Contender(PLAIN_NAME, build, num_threads)


def make_peer(dim, num_features, num_threads):
    """tensorflow-recommenders-addons: embedding_lookup_unique and DynamicEmbeddingOptimizer.

    Raises:
      ImportError: it is not installed.
    """
    import tensorflow_recommenders_addons as tfra

    embedding = tfra.dynamic_embedding

    def build():
        keys = _keys()
        variable = embedding.get_variable(
            "table",
            key_dtype=tf.int64,
            value_dtype=tf.float32,
            dim=dim,
            devices=["/CPU:0"],
            initializer=FIRST_VALUES,
        )
        flat = tf.reshape(keys, [-1])
        vectors, trainable = embedding.embedding_lookup_unique(
            variable, flat, return_trainable=True
        )
        loss = linear_loss(vectors, num_features, dim)
        optimizer = embedding.DynamicEmbeddingOptimizer(tf1.train.AdagradOptimizer(LEARNING_RATE))
        distinct, inverse = tf.unique(flat)
        initial_rows = tf.fill([tf.size(flat), dim], FIRST_VALUE)
        ops = {
            "train": optimizer.minimize(loss, var_list=[trainable]),
            "look_up": tf.gather(variable.lookup(distinct), inverse),
            "look_up_repeats": variable.lookup(flat),
            "insert": variable.upsert(flat, initial_rows),
        }
        return Parts([keys], ops, loss)

    return Contender(PEER_NAME, build, num_threads)


@functools.cache
def has_peer():
    """Whether tensorflow-recommenders-addons can be imported; says once that it cannot."""
    try:
        import tensorflow_recommenders_addons  # noqa: F401
    except ImportError as error:
        print(f"without tensorflow-recommenders-addons: {error}")
        return False
    return True
