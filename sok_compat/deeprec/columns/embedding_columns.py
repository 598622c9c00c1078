# SPDX-License-Identifier: Apache-2.0
"""Feature columns over embedding variables, and the lookup of any embedding column."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

import tensorflow as tf

from sok_compat.deeprec.lookups.group_lookup import COMBINERS, whole_of
from sok_compat.deeprec.lookups.stock_lookups import (
    embedding_lookup_sparse,
    safe_embedding_lookup_sparse,
)
from sok_compat.deeprec.variables.embedding_variable import (
    KEY_DTYPES,
    EmbeddingVariable,
    PartitionedEmbeddingVariable,
)
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.runtime.checked_values import checked_count
from sok_compat.runtime.tf_versions.columns import feature_columns as stock
from sok_compat.tables.first_value import Initializer

tf1 = tf.compat.v1

WEIGHTS = "embedding_weights"  # the name of the variable, as in TensorFlow
_NEVER_NEGATIVE = (
    stock.BucketizedColumn,
    stock.CrossedColumn,
    stock.HashedCategoricalColumn,
)


class _Fields(NamedTuple):
    key: str
    dtype: tf.DType
    partition_num: int | None
    ev_option: Any  # an EmbeddingVariableOption or None; subclasses have options of their variable


class CategoricalColumnWithEmbedding(stock.CategoricalColumn, _Fields):
    """A column of ids without a limit, for an embedding variable.

    Implements TensorFlow 1's interface only, so that canned estimators use it as `input_layer`
    does.
    """

    made_by = "categorical_column_with_embedding"
    num_buckets = 1  # as in DeepRec; not used

    @classmethod
    def checked(
        cls, key: str, dtype: tf.DType | str | None, partition_num: Any, ev_option: Any
    ) -> CategoricalColumnWithEmbedding:
        """Makes a column; arguments are as for categorical_column_with_embedding.

        Raises:
          ValueError: an argument out of range.
        """
        dtype = tf.as_dtype(dtype)
        if dtype != tf.string and dtype not in KEY_DTYPES:
            raise ValueError(
                f"the column {key!r}: dtype must be string, int64 or int32, got {dtype.name}"
            )
        if partition_num is not None:
            what = f"the column {key!r}: partition_num"
            partition_num = checked_count(what, partition_num, 1)
        return cls(key, dtype, partition_num, ev_option)

    @property
    def name(self) -> str:
        return self.key

    @property
    def key_dtype(self) -> tf.DType:
        """The key dtype of the embedding variable; strings are hashed to int64."""
        return tf.int64 if self.dtype == tf.string else self.dtype

    @property
    def parse_example_spec(self) -> dict[str, tf.io.VarLenFeature]:
        return {self.key: tf.io.VarLenFeature(self.dtype)}

    _parse_example_spec = parse_example_spec

    @property
    def _num_buckets(self):
        raise NotImplementedError(
            f"the column {self.key!r} of {self.made_by} has no number of buckets: use it, alone or "
            "in a weighted_categorical_column, in an embedding_column or "
            "tf.feature_column.linear_model, or use it in a crossed_column; elsewhere, as in the "
            "linear columns of an estimator, use categorical_column_with_hash_bucket"
        )

    def _transform_feature(self, inputs):
        return self.keys_of(stock.to_sparse_input_and_drop_ignore_values(inputs.get(self.key)))

    def keys_of(self, ids: tf.SparseTensor) -> tf.SparseTensor:
        """The keys of strings or integers.

        Raises:
          ValueError: ids have another dtype than the column.
        """
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

    def make_variable(
        self,
        name: str,
        dimension: int,
        initializer: Initializer,
        trainable: bool,
        collections: list[str],
    ) -> EmbeddingVariable | PartitionedEmbeddingVariable:
        """Makes or finds the variable of a column in the current variable scope."""
        num_parts = self.partition_num
        return get_embedding_variable(
            name,
            dimension,
            self.key_dtype,
            initializer=initializer,
            trainable=trainable,
            collections=collections,
            partitioner=tf1.fixed_size_partitioner(num_parts) if num_parts else None,
            ev_option=self.ev_option,
        )


class EmbeddingVariableColumn(stock.EmbeddingColumn):
    """An embedding column over a CategoricalColumnWithEmbedding, or a weighted one."""

    def create_state(self, state_manager: Any) -> None:
        raise NotImplementedError(
            f"the column {self.name!r} of an embedding variable works in "
            "tf.feature_column.input_layer only, not in Keras layers, got "
            f"{type(state_manager).__name__}"
        )

    def _old_get_dense_tensor_internal(self, sparse_tensors, weight_collections, trainable):
        return ColumnLookup.of(self, sparse_tensors, weight_collections, trainable).alone()


class SharedEmbeddingVariableColumn(stock.SharedEmbeddingColumn):
    """As EmbeddingVariableColumn, for columns that share an embedding variable."""

    def _get_dense_tensor_internal(self, inputs, weight_collections=None, trainable=None):
        with tf1.name_scope(None, default_name=self.name):
            sparse_tensors = self.categorical_column._get_sparse_tensors(inputs)
            return ColumnLookup.of(self, sparse_tensors, weight_collections, trainable).alone()


_GROUPED = (
    *(stock.EmbeddingColumn, stock.SharedEmbeddingColumn),
    *(EmbeddingVariableColumn, SharedEmbeddingVariableColumn),
)


def source_of(categorical_column: stock.CategoricalColumn) -> Any:
    """The column that gives a weighted or sequence column its ids; other columns themselves."""
    while hasattr(categorical_column, "categorical_column"):
        categorical_column = categorical_column.categorical_column
    return categorical_column


def is_of_embedding_variable(column: stock.CategoricalColumn | stock.DenseColumn) -> bool:
    """Whether a column's ids are those of a CategoricalColumnWithEmbedding."""
    return isinstance(source_of(column), CategoricalColumnWithEmbedding)


def is_weighted(column: stock.DenseColumn) -> bool:
    """Whether the ids of an embedding column have weights."""
    return source_of(column.categorical_column) is not column.categorical_column


def may_be_grouped(column: stock.DenseColumn) -> bool:
    """Whether a column is an embedding column of bags, with settings that group lookups support."""
    return may_be_pooled(column) and not isinstance(
        column.categorical_column, stock.SequenceCategoricalColumn
    )


def may_be_pooled(column: stock.DenseColumn) -> bool:
    """Whether a column is an embedding column, of bags or sequences, with such settings."""
    return (
        type(column) in _GROUPED
        and column.combiner in COMBINERS
        and column.max_norm is None
        and column.ckpt_to_load_from is None
    )


@dataclasses.dataclass(frozen=True, eq=False)
class ColumnLookup:
    """The lookup of an embedding column.

    column: an embedding column, or shared embedding column.
    bags: TensorFlow's IdWeightPair of SparseTensors, or a DenseFeature.
    variable: of the column.
    """

    column: Any
    bags: Any
    variable: Any

    @classmethod
    def of(
        cls, column: stock.DenseColumn, bags: Any, collections: list[str], trainable: bool
    ) -> ColumnLookup:
        """Makes or finds the variable in the current variable scope."""
        return cls(column, bags, _variable_of(column, collections, column.trainable and trainable))

    @property
    def ids(self) -> tf.SparseTensor:
        """The ids, unless the bags are a DenseFeature."""
        return self.bags.id_tensor

    @property
    def weights(self) -> tf.SparseTensor | None:
        """Their weights; None: all 1."""
        return self.bags.weight_tensor

    @property
    def is_of_bags(self) -> bool:
        """Whether ids are [batch, ids], or of unknown rank, and the variable is a single one."""
        ids = getattr(self.bags, "id_tensor", None)
        is_whole = whole_of(self.variable) is not None
        return is_whole and (ids is None or ids.shape.rank in (None, 2))

    def alone(self) -> tf.Tensor:
        """TensorFlow's lookup: [*shape of the ids without the last dimension, dim]."""
        weights = weights_at(self.ids, self.weights)
        is_safe = self.column.use_safe_embedding_lookup or (self.ids.shape.rank or 3) > 2
        look_up = safe_embedding_lookup_sparse if is_safe else embedding_lookup_sparse
        return look_up(
            self.variable,
            self.ids,
            weights,
            combiner=self.column.combiner,
            name=f"{self.column.name}_weights",
            partition_strategy="div",
            max_norm=self.column.max_norm,
        )

    def taken(self) -> tuple[tf.SparseTensor, tf.SparseTensor | None]:
        """(ids, weights or None), without those that TensorFlow's safe lookup ignores."""
        ids, weights = self.ids, weights_at(self.ids, self.weights)
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


def weights_at(ids: tf.SparseTensor, weights: tf.SparseTensor | None) -> tf.SparseTensor | None:
    """The weights of a weighted column at the places of its ids, in their order.

    As in TensorFlow their own places do not count: a dense tensor [number of ids, 1] will do.
    """
    if weights is None:
        return None
    return tf.SparseTensor(ids.indices, weights.values, ids.dense_shape)


def _retained(bags: tf.SparseTensor, is_taken: tf.Tensor) -> tf.SparseTensor:
    kept = tf.sparse.retain(bags, is_taken)
    return tf.SparseTensor(kept.indices, kept.values, bags.dense_shape)  # keeps a static shape


def _is_never_negative(source: stock.CategoricalColumn) -> bool:
    if isinstance(source, CategoricalColumnWithEmbedding):
        return source.dtype == tf.string
    if isinstance(source, stock.IdentityCategoricalColumn):  # without a default, keeps all ids
        return source.default_value is not None
    return isinstance(source, _NEVER_NEGATIVE)


def _variable_of(column: stock.DenseColumn, collections: list[str], trainable: bool) -> Any:
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
            f"the collection {shared} must have only the variable of shape {shape} of the shared "
            f"embedding columns, got {[(v.name, v.get_shape()) for v in found]}: give "
            "these columns another shared_embedding_collection_name"
        )
    return found[0]


def _shape_of(column: stock.DenseColumn) -> tf.TensorShape:
    if is_of_embedding_variable(column):
        return tf.TensorShape([column.dimension])
    return tf.TensorShape([column.categorical_column._num_buckets, column.dimension])


def name_of_weights(column: stock.DenseColumn) -> str:
    """The name of an embedding column's variable: TensorFlow's, or the column's own."""
    return getattr(column, "weights_name", WEIGHTS)


def _make_variable(column: stock.DenseColumn, collections: list[str], trainable: bool) -> Any:
    variable = make_weights(
        column.categorical_column,
        name_of_weights(column),
        column.dimension,
        column.initializer,
        trainable,
        collections,
    )
    if column.ckpt_to_load_from is not None:
        first_values = {column.tensor_name_in_ckpt: variable}
        tf1.train.init_from_checkpoint(column.ckpt_to_load_from, first_values)
    return variable


def make_weights(
    categorical_column: stock.CategoricalColumn,
    name: str,
    dimension: int,
    initializer: Initializer,
    trainable: bool,
    collections: list[str],
) -> Any:
    """Makes or finds the variable of a categorical column, perhaps of weighted or sequence ids, in
    the current variable scope."""
    source = source_of(categorical_column)
    if isinstance(source, CategoricalColumnWithEmbedding):
        return source.make_variable(name, dimension, initializer, trainable, collections)
    return tf1.get_variable(
        name,
        [categorical_column._num_buckets, dimension],
        tf.float32,
        initializer,
        trainable=trainable,
        collections=collections,
    )


def collections_with(given: Iterable[str] | None) -> list[str]:
    """The collections of a script, and those in which TensorFlow's columns put variables."""
    needed = (tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.MODEL_VARIABLES)
    return [*(given or ()), *(name for name in needed if name not in (given or ()))]
