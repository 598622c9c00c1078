# SPDX-License-Identifier: Apache-2.0
"""Embedding columns of sequences: each id is looked up as a bag of one, by the ops of bags."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from sok_compat.deeprec.columns.embedding_columns import ColumnLookup, may_be_pooled
from sok_compat.deeprec.columns.input_layers import look_up_together
from sok_compat.deeprec.lookups.group_lookup import whole_of
from sok_compat.lookup.dense_tables import tables_are_dense
from sok_compat.runtime.tf_versions.columns import feature_columns as stock


class _PooledByPosition(stock.EmbeddingColumn):
    """Over a SequenceCategoricalColumn; with the names, scopes and results of its base."""

    def _old_get_dense_tensor_internal(self, sparse_tensors, weight_collections, trainable):
        lookup = ColumnLookup.of(self, sparse_tensors, weight_collections, trainable)
        if whole_of(lookup.variable) is None or lookup.weights is not None:
            return lookup.alone()
        positions = sparse_tensors._replace(id_tensor=tf.sparse.reshape(lookup.ids, [-1, 1]))
        (rows,) = look_up_together([dataclasses.replace(lookup, bags=positions)])
        shape = tf.concat([lookup.ids.dense_shape[:2], [self.dimension]], 0)
        return tf.reshape(rows, shape)


def pooled_by_position(column: stock.DenseColumn) -> Any:
    """A column with the results of the given one, and fewer ops where its settings allow that."""
    is_shared = isinstance(column, stock.SharedEmbeddingColumn)
    if is_shared or not may_be_pooled(column) or tables_are_dense():
        return column
    # TensorFlow's lookup of ids of three dimensions is the safe one.
    return _PooledByPosition(*column)._replace(use_safe_embedding_lookup=True)
