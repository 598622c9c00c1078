# SPDX-License-Identifier: Apache-2.0
"""The features of a batch, with DeepRec's two APIs for embeddings and with plain TensorFlow.

All return the same columns: embeddings in the order of `input_layer`, then the numbers. DeepRec's
two APIs use variables of the same names, and so the same first values.
"""

import tensorflow as tf

from examples.dlrm import criteo, reader

_NUMBERS = "numbers"
# In the order of input_layer: by column name.
_FEATURES = sorted(criteo.CATEGORICAL_NAMES, key=lambda name: f"{name}_embedding")


def by_group_lookup(batch, options):
    """One lookup of 26 embedding variables."""
    variables = []
    for name in _FEATURES:
        with tf.variable_scope(f"input_layer/{name}_embedding"):
            variables.append(
                tf.get_embedding_variable(
                    "embedding_weights",
                    embedding_dim=options.dim,
                    initializer=_first_values(options),
                )
            )
    one_key_each = tf.range(tf.shape(batch.keys, out_type=tf.int64)[0] + 1)
    bags = [
        tf.RaggedTensor.from_row_splits(keys, one_key_each, validate=False)
        for keys in _keys_of(batch).values()
    ]
    vectors = tf.nn.group_embedding_lookup_sparse(variables, bags, ["mean"] * len(variables))
    return tf.concat([*vectors, batch.dense], axis=1)


def by_feature_columns(batch, options):
    """26 columns in a group; input_layer makes the variables and looks up all of them at once."""
    with tf.feature_column.group_embedding_column_scope("criteo"):
        columns = [
            tf.feature_column.embedding_column(
                tf.feature_column.categorical_column_with_embedding(name, dtype=tf.int64),
                dimension=options.dim,
                initializer=_first_values(options),
            )
            for name in _FEATURES
        ]
    columns.append(tf.feature_column.numeric_column(_NUMBERS, shape=(reader.DENSE_WIDTH,)))
    return tf.feature_column.input_layer({**_keys_of(batch), _NUMBERS: batch.dense}, columns)


def by_plain_variables(batch, options):
    """Ordinary variables with a fixed number of rows, which keys share."""
    vectors = []
    for name, keys in _keys_of(batch).items():
        with tf.variable_scope(f"input_layer/{name}_embedding"):
            variable = tf.get_variable(
                "embedding_weights",
                [options.rows, options.dim],
                initializer=_first_values(options),
                use_resource=True,
            )
        vectors.append(tf.nn.embedding_lookup(variable, tf.floormod(keys, options.rows)))
    return tf.concat([*vectors, batch.dense], axis=1)


BY_NAME = {
    "group": by_group_lookup,
    "columns": by_feature_columns,
    "plain": by_plain_variables,
}


def _first_values(options):
    return tf.truncated_normal_initializer(stddev=0.05, seed=options.seed)


def _keys_of(batch):
    """{feature: int64 [batch]}"""
    places = {name: place for place, name in enumerate(criteo.CATEGORICAL_NAMES)}
    return {name: batch.keys[:, places[name]] for name in _FEATURES}
