# SPDX-License-Identifier: Apache-2.0
"""Feature columns whose weights are embedding variables, and the lookup of any embedding column."""

import collections
import dataclasses
from typing import Any, Optional

import tensorflow as tf

from sok_compat.deeprec.lookups.group_lookup import COMBINERS
from sok_compat.deeprec.lookups.stock_lookups import (
    embedding_lookup_sparse,
    safe_embedding_lookup_sparse,
)
from sok_compat.deeprec.variables.embedding_variable import PartitionedEmbeddingVariable
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.runtime.tf_versions import PartitionedVariable
from sok_compat.runtime.tf_versions import feature_columns as stock

tf1 = tf.compat.v1

WEIGHTS = "embedding_weights"  # the name of the variable, as in TensorFlow
_OF_PARTS = (PartitionedVariable, PartitionedEmbeddingVariable)
_NEVER_NEGATIVE = (
    stock.BucketizedColumn,
    stock.CrossedColumn,
    stock.HashedCategoricalColumn,
)
_FIELDS = ("key", "dtype", "partition_num", "ev_option")


class CategoricalColumnWithEmbedding(
    stock.CategoricalColumn, collections.namedtuple("CategoricalColumnWithEmbedding", _FIELDS)
):
    """Ids without a limit, whose embeddings an embedding variable has.

    A column of TensorFlow 1 alone, so that canned estimators ask it as `input_layer` does.
    """

    num_buckets = 1  # in DeepRec; nothing depends on it

    @property
    def name(self):
        return self.key

    @property
    def key_dtype(self):
        """Of the embedding variable: strings are hashed."""
        return tf.int64 if self.dtype == tf.string else self.dtype

    @property
    def parse_example_spec(self):
        return {self.key: tf.io.VarLenFeature(self.dtype)}

    _parse_example_spec = parse_example_spec

    @property
    def _num_buckets(self):
        raise NotImplementedError(
            f"the column {self.key!r} of categorical_column_with_embedding has no number of "
            "buckets: of what TensorFlow makes of categorical columns it can be in an "
            "embedding_column, a crossed_column, or a weighted_categorical_column in the former; "
            "use categorical_column_with_hash_bucket for others"
        )

    def _transform_feature(self, inputs):
        ids = stock.to_sparse_input_and_drop_ignore_values(inputs.get(self.key))
        is_string = ids.dtype == tf.string
        if not is_string and not ids.dtype.is_integer:
            raise ValueError(
                f"the feature {self.key!r} must be strings or integers, got {ids.dtype.name}"
            )
        if is_string != (self.dtype == tf.string):
            raise ValueError(
                "Column dtype and SparseTensors dtype must be compatible. key: "
                f"{self.key}, column dtype: {self.dtype.name}, tensor dtype: {ids.dtype.name}"
            )
        if not is_string:
            return ids
        return ids.with_values(tf.strings.to_hash_bucket_fast(ids.values, tf.int64.max))

    def _get_sparse_tensors(self, inputs, weight_collections=None, trainable=None):
        del weight_collections, trainable
        return stock.CategoricalColumn.IdWeightPair(inputs.get(self), None)

    def make_variable(self, column, trainable, collections):
        """The weights of an embedding column in the current variable scope, made or found."""
        partitions = self.partition_num and tf1.fixed_size_partitioner(self.partition_num)
        return get_embedding_variable(
            WEIGHTS,
            column.dimension,
            self.key_dtype,
            initializer=column.initializer,
            trainable=trainable,
            collections=collections,
            partitioner=partitions,
            ev_option=self.ev_option,
        )


class EmbeddingVariableColumn(stock.EmbeddingColumn):
    """An embedding column over a CategoricalColumnWithEmbedding, or a weighted one."""

    def create_state(self, state_manager):
        raise NotImplementedError(
            f"the column {self.name!r} of an embedding variable is for "
            "tf.feature_column.input_layer, and not for layers of Keras, got "
            f"{type(state_manager).__name__}"
        )

    def _old_get_dense_tensor_internal(self, sparse_tensors, weight_collections, trainable):
        return ColumnLookup.of(self, sparse_tensors, weight_collections, trainable).alone()


class SharedEmbeddingVariableColumn(stock.SharedEmbeddingColumn):
    """As EmbeddingVariableColumn, one of several of one embedding variable."""

    def _get_dense_tensor_internal(self, inputs, weight_collections=None, trainable=None):
        with tf1.name_scope(None, default_name=self.name):
            sparse_tensors = self.categorical_column._get_sparse_tensors(inputs)
            return ColumnLookup.of(self, sparse_tensors, weight_collections, trainable).alone()


def source_of(categorical_column):
    """What a weighted or sequence column has its ids from; the column itself, if it is neither."""
    while hasattr(categorical_column, "categorical_column"):
        categorical_column = categorical_column.categorical_column
    return categorical_column


def may_be_grouped(column):
    """Whether a lookup of several columns can do what this embedding column is asked for."""
    return (
        column.combiner in COMBINERS
        and column.max_norm is None
        and column.ckpt_to_load_from is None
        and not isinstance(column.categorical_column, stock.SequenceCategoricalColumn)
    )


@dataclasses.dataclass(frozen=True, eq=False)
class ColumnLookup:
    """What an embedding column looks up: ids and weights in the variable."""

    column: Any
    ids: tf.SparseTensor
    weights: Optional[tf.SparseTensor]
    variable: Any

    @classmethod
    def of(cls, column, sparse_tensors, collections, trainable):
        """The variable is made, or found, in the current variable scope.

        Args:
          column: an embedding column, or shared one.
          sparse_tensors: an IdWeightPair.
          collections: what the variable is put into.
          trainable: of the layer.
        """
        variable = _variable_of(column, collections, column.trainable and trainable)
        return cls(column, sparse_tensors.id_tensor, sparse_tensors.weight_tensor, variable)

    @property
    def is_of_bags(self):
        """Whether ids are [batch, ids] of one variable, as far as the graph tells."""
        is_whole = not isinstance(self.variable, _OF_PARTS) or len(self.variable) == 1
        return is_whole and self.ids.shape.rank in (None, 2)

    def alone(self):
        """[*shape of the ids without the last dimension, dim], by TensorFlow's functions."""
        is_safe = self.column.use_safe_embedding_lookup or (self.ids.shape.rank or 3) > 2
        look_up = safe_embedding_lookup_sparse if is_safe else embedding_lookup_sparse
        return look_up(
            self.variable,
            self.ids,
            self.weights,
            combiner=self.column.combiner,
            name=f"{self.column.name}_weights",
            partition_strategy="div",
            max_norm=self.column.max_norm,
        )

    def taken(self):
        """(ids, weights or None) without those that TensorFlow's safe lookup leaves out."""
        ids, weights = self.ids, self.weights
        if weights is not None:  # their own indices are not looked at
            weights = tf.SparseTensor(ids.indices, weights.values, ids.dense_shape)
        if not self.column.use_safe_embedding_lookup:
            return ids, weights
        is_taken = []
        if not _is_never_negative(source_of(self.column.categorical_column)):
            is_taken.append(ids.values >= 0)
        if weights is not None and self.column.combiner != "sum":
            is_taken.append(weights.values > 0)
        if is_taken:
            is_taken = is_taken[0] if len(is_taken) == 1 else tf.logical_and(*is_taken)
            return _retained(ids, is_taken), weights and _retained(weights, is_taken)
        return ids, weights


def _retained(bags, is_taken):
    kept = tf.sparse.retain(bags, is_taken)
    return tf.SparseTensor(kept.indices, kept.values, bags.dense_shape)  # static, where it was


def _is_never_negative(source):
    if isinstance(source, CategoricalColumnWithEmbedding):
        return source.dtype == tf.string
    if isinstance(source, stock.IdentityCategoricalColumn):  # without a default, ids as they are
        return source.default_value is not None
    return isinstance(source, _NEVER_NEGATIVE)


def _variable_of(column, collections, trainable):
    shared = getattr(column, "shared_embedding_collection_name", None)
    if shared is None:
        return _make_variable(column, collections, trainable)
    found = tf1.get_collection(shared)
    if not found:
        tf1.add_to_collection(shared, _make_variable(column, collections, trainable))
        return tf1.get_collection(shared)[0]
    shape = _shape_of(column)
    if len(found) > 1 or found[0].get_shape() != shape:
        raise ValueError(
            f"the collection {shared} must have the one variable of shape {shape} that shared "
            f"embedding columns put there, got {[(v.name, v.get_shape()) for v in found]}: give "
            "these columns another shared_embedding_collection_name"
        )
    return found[0]


def _shape_of(column):
    source = source_of(column.categorical_column)
    if isinstance(source, CategoricalColumnWithEmbedding):
        return tf.TensorShape([column.dimension])
    return tf.TensorShape([column.categorical_column._num_buckets, column.dimension])


def _make_variable(column, collections, trainable):
    source = source_of(column.categorical_column)
    if isinstance(source, CategoricalColumnWithEmbedding):
        return source.make_variable(column, trainable, collections)
    return tf1.get_variable(
        WEIGHTS,
        _shape_of(column),
        tf.float32,
        column.initializer,
        trainable=trainable,
        collections=collections,
    )
