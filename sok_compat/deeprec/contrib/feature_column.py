# SPDX-License-Identifier: Apache-2.0
"""`tf.contrib.feature_column`: sequences as the input of a recurrent network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

import tensorflow.compat.v1 as tf

from sok_compat.deeprec import contrib
from sok_compat.deeprec.columns.embedding_columns import collections_with
from sok_compat.deeprec.columns.sequence_columns import pooled_by_position
from sok_compat.deeprec.python.feature_column.sequence_feature_column import (
    sequence_categorical_column_with_embedding,
)
from sok_compat.runtime.tf_versions.columns import feature_columns as stock
from sok_compat.runtime.tf_versions.columns import (
    is_of_sequences,
    scope_name,
    sequence_tensor,
    width_of,
)

__all__ = ["sequence_categorical_column_with_embedding", "sequence_input_layer"]


def sequence_input_layer(
    features: Mapping[str, tf.SparseTensor],
    feature_columns: Iterable[stock.DenseColumn],
    weight_collections: list[str] | None = None,
    trainable: bool = True,
) -> tuple[tf.Tensor, tf.Tensor]:
    """As tf.feature_column.input_layer, for sequence columns. API of TensorFlow 1.

    Args:
      features: {key: tf.SparseTensor [batch, steps]}
      feature_columns: sequence_numeric_columns, and embedding_columns or indicator_columns over
        columns of sequence_* functions.
      weight_collections, trainable: as in input_layer.

    Returns:
      (float32 [batch, steps, sum of dims], columns ordered by name, zeros after the end of a
      sequence; int64 [batch], the lengths of the sequences).

    Raises:
      ValueError: a column is not a sequence column.
      tf.errors.InvalidArgumentError: when run: columns differ in the lengths of sequences.
    """
    columns = sorted(stock.normalize_feature_columns(feature_columns), key=lambda each: each.name)
    for column in columns:
        if not is_of_sequences(column):
            raise ValueError(
                f"sequence_input_layer needs sequence columns, got {column.name!r}, of type "
                f"{type(column).__name__}"
            )
    with tf.variable_scope(None, "sequence_input_layer", list(features.values())):
        builder = stock.LazyBuilder(features)
        collections = collections_with(weight_collections)
        found = [
            _look_up(pooled_by_position(column), builder, collections, trainable)
            for column in columns
        ]
        outputs, lengths = zip(*found)
        same = [tf.assert_equal(lengths[0], other) for other in lengths[1:]]
        with tf.control_dependencies(same):
            return tf.concat(outputs, -1), tf.identity(lengths[0])


def _look_up(column, builder, collections, trainable):
    """(float32 [batch, steps, dim], lengths)"""
    with tf.variable_scope(None, default_name=scope_name(column)):
        tensor, lengths = sequence_tensor(column, builder, collections, trainable)
    width = width_of(column)
    shape = tf.concat([tf.shape(tensor)[:2], [width]], 0)
    output = tf.reshape(tensor, shape)
    output.set_shape([None, None, width])
    return output, lengths


def __getattr__(name: str) -> NoReturn:
    raise contrib.missing(f"feature_column.{name}")
