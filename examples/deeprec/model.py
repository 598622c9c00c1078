# SPDX-License-Identifier: Apache-2.0
"""DCNv2: low-rank cross layers next to a deep part, and its training op."""

import tensorflow as tf

from examples.deeprec import embeddings
from examples.dlrm.mlp import make_mlp, run_mlp

_INITIAL_SQUARES = 1e-8  # of Adagrad: row gradients are small, about 1 / batch size


def logits_of(batch, options):
    """The logits [batch] of a reader.Batch."""
    with tf.name_scope("embedding"):
        features = embeddings.BY_NAME[options.embedding](batch, options)
    width = features.shape[1]
    crossed = features
    for number in range(options.cross_layers):
        crossed = cross_layer(features, crossed, options.cross_rank, number, options.seed)
    deep = make_mlp("deep", (int(width), *options.deep), options.seed + 200)
    both = tf.concat([crossed, tf.nn.relu(run_mlp(deep, features))], axis=1)
    last = make_mlp("logit", (int(both.shape[1]), 1), options.seed + 300)
    return tf.squeeze(run_mlp(last, both), axis=1)


def cross_layer(features, crossed, rank, number, seed):
    """features * (U V crossed + b) + crossed, all [batch, width]."""
    width = int(features.shape[1])
    with tf.variable_scope(f"cross_{number}"):
        to_rank = _weights("V", [width, rank], seed + 100 + 2 * number)
        from_rank = _weights("U", [rank, width], seed + 101 + 2 * number)
        bias = tf.get_variable("b", [width], initializer=tf.zeros_initializer(), use_resource=True)
    return features * tf.nn.bias_add((crossed @ to_rank) @ from_rank, bias) + crossed


def _weights(name, shape, seed):
    initializer = tf.glorot_normal_initializer(seed=seed)
    return tf.get_variable(name, shape, initializer=initializer, use_resource=True)


def train_op_of(loss, options):
    """One op: Adagrad for embeddings, Adam for other variables; increments the global step."""
    variables = tf.trainable_variables()
    tables = [variable for variable in variables if "/embedding_weights" in variable.name]
    others = [variable for variable in variables if variable not in tables]
    gradients = tf.gradients(loss, tables + others)
    of_tables = tf.train.AdagradOptimizer(
        options.learning_rate, initial_accumulator_value=_INITIAL_SQUARES
    ).apply_gradients(zip(gradients, tables))
    of_others = tf.train.AdamOptimizer(options.dense_learning_rate).apply_gradients(
        zip(gradients[len(tables) :], others), tf.train.get_or_create_global_step()
    )
    return tf.group(of_tables, of_others)
