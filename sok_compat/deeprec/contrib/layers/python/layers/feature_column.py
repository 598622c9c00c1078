# SPDX-License-Identifier: Apache-2.0
"""Feature columns of `tf.contrib.layers`.

They are TensorFlow 2's own, or those of embedding variables. Each knows its place in the order of
TensorFlow 1, by the text of its class there, and the combiner of a linear model.
(tensorflow/contrib/layers/python/layers/feature_column.py of DeepRec.)
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn, Union

import tensorflow.compat.v1 as tf

from sok_compat.deeprec import contrib
from sok_compat.deeprec.columns import feature_columns as face
from sok_compat.deeprec.columns.embedding_columns import is_of_embedding_variable
from sok_compat.deeprec.columns.stock_functions import of_tensorflow
from sok_compat.deeprec.contrib.layers.python.layers.layer_parts import refuse
from sok_compat.deeprec.variables.options import EmbeddingVariableOption, GlobalStepEvict
from sok_compat.runtime.tf_versions.columns import feature_columns as stock

__all__ = [
    *("bucketized_column", "create_feature_spec_for_parsing", "embedding_column"),
    *("one_hot_column", "real_valued_column", "shared_embedding_columns"),
    *("sparse_column_with_embedding", "sparse_column_with_hash_bucket"),
    *("sparse_column_with_integerized_feature", "sparse_column_with_keys"),
    *("sparse_column_with_vocabulary_file", "weighted_sparse_column"),
]
_NAMED_BEFORE_OTHERS = 3  # columns in the name of a shared variable
Column = Union[stock.CategoricalColumn, stock.DenseColumn]


def sort_key_of(column: Column) -> str:
    """The text by which layers order a column; the name of a column of another module."""
    return getattr(column, "sort_key", column.name)


def combiner_of(column: Column) -> str:
    """How a linear model combines the ids of a sample."""
    return getattr(column, "sparse_combiner", "sum")


def _remember(column: Column, sort_key: str, combiner: str = "sum") -> Any:
    column.sort_key, column.sparse_combiner = sort_key, combiner
    return column


def _sparse(
    column: stock.CategoricalColumn, of_class: str, name: str, size: int, combiner: str = "sum"
) -> stock.CategoricalColumn:
    size_there = f"is_integerized={of_class == '_SparseColumnIntegerized'}, bucket_size={size}"
    return _remember(column, f"{of_class}(column_name={name!r}, {size_there})", combiner)


def _length(column: stock.CategoricalColumn) -> int:
    return 1 if is_of_embedding_variable(column) else column._num_buckets  # 1: as in DeepRec


@of_tensorflow
def sparse_column_with_hash_bucket(
    column_name: str,
    hash_bucket_size: int,
    combiner: str = "sum",
    dtype: tf.DType = tf.string,
    hash_keys: Any = None,
) -> stock.CategoricalColumn:
    """As tf.feature_column.categorical_column_with_hash_bucket; hash_keys must be None."""
    refuse("sparse_column_with_hash_bucket", hash_keys=hash_keys)
    column = tf.feature_column.categorical_column_with_hash_bucket(
        column_name, hash_bucket_size, dtype
    )
    return _sparse(column, "_SparseColumnHashed", column_name, hash_bucket_size, combiner)


class _IntegerFields(NamedTuple):
    key: str
    num_buckets: int
    dtype: tf.DType


class _IntegerColumn(stock.CategoricalColumn, _IntegerFields):
    """Integers modulo a number of buckets."""

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, tf.io.VarLenFeature]:
        return {self.key: tf.io.VarLenFeature(self.dtype)}

    _parse_example_spec = parse_example_spec

    @property
    def _num_buckets(self):
        return self.num_buckets

    def _transform_feature(self, inputs):
        ids = stock.to_sparse_input_and_drop_ignore_values(inputs.get(self.key))
        return ids.with_values(tf.math.floormod(ids.values, self.num_buckets))

    def _get_sparse_tensors(self, inputs, weight_collections=None, trainable=None):
        del weight_collections, trainable
        return stock.CategoricalColumn.IdWeightPair(inputs.get(self), None)


@of_tensorflow
def sparse_column_with_integerized_feature(
    column_name: str, bucket_size: int, combiner: str = "sum", dtype: tf.DType = tf.int64
) -> stock.CategoricalColumn:
    """A column of integers modulo bucket_size."""
    if bucket_size < 1 or not dtype.is_integer:
        raise ValueError(
            f"the column {column_name!r} must have a bucket_size >= 1 and an integer dtype, got "
            f"{bucket_size} and {dtype.name}"
        )
    column = _IntegerColumn(column_name, bucket_size, dtype)
    return _sparse(column, "_SparseColumnIntegerized", column_name, bucket_size, combiner)


@of_tensorflow
def sparse_column_with_keys(
    column_name: str,
    keys: Iterable[Any],
    default_value: int = -1,
    combiner: str = "sum",
    dtype: tf.DType = tf.string,
) -> stock.CategoricalColumn:
    """As tf.feature_column.categorical_column_with_vocabulary_list."""
    column = tf.feature_column.categorical_column_with_vocabulary_list(
        column_name, tuple(keys), dtype, default_value
    )
    return _sparse(column, "_SparseColumnKeys", column_name, _length(column), combiner)


@of_tensorflow
def sparse_column_with_vocabulary_file(
    column_name: str,
    vocabulary_file: str,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    combiner: str = "sum",
    dtype: tf.DType = tf.string,
) -> stock.CategoricalColumn:
    """As tf.feature_column.categorical_column_with_vocabulary_file."""
    column = tf.feature_column.categorical_column_with_vocabulary_file(
        column_name,
        vocabulary_file,
        vocab_size,
        num_oov_buckets,
        None if num_oov_buckets else default_value,
        dtype,
    )
    return _sparse(column, "_SparseColumnVocabulary", column_name, _length(column), combiner)


@of_tensorflow
def sparse_column_with_embedding(
    column_name: str,
    dtype: tf.DType = tf.string,
    partition_num: int | None = None,
    steps_to_live: int | None = None,
    init_data_source: str | None = None,
    ev_option: EmbeddingVariableOption | None = None,
) -> stock.CategoricalColumn:
    """A column of any ids, for an embedding variable. API of DeepRec.

    As tf.feature_column.categorical_column_with_embedding; steps_to_live is a GlobalStepEvict.
    """
    refuse("sparse_column_with_embedding", init_data_source=init_data_source)
    if steps_to_live is not None:
        ev_option = _with_eviction(ev_option, steps_to_live)
    column = face.categorical_column_with_embedding(column_name, dtype, partition_num, ev_option)
    return _sparse(column, "_SparseColumnEmbedding", column_name, 1)


@functools.cache  # as columns that share a variable have the same option
def _with_eviction(
    ev_option: EmbeddingVariableOption | None, steps: int
) -> EmbeddingVariableOption:
    option = EmbeddingVariableOption() if ev_option is None else copy.copy(ev_option)
    option.evict = option.evict or GlobalStepEvict(steps)
    return option


@of_tensorflow
def weighted_sparse_column(
    sparse_id_column: stock.CategoricalColumn, weight_column_name: str, dtype: tf.DType = tf.float32
) -> stock.CategoricalColumn:
    """As tf.feature_column.weighted_categorical_column."""
    column = tf.feature_column.weighted_categorical_column(
        sparse_id_column, weight_column_name, dtype
    )
    sort_key = (
        f"_WeightedSparseColumn(sparse_id_column={sort_key_of(sparse_id_column)}, "
        f"weight_column_name={weight_column_name!r})"
    )
    return _remember(column, sort_key, combiner_of(sparse_id_column))


@of_tensorflow
def one_hot_column(sparse_id_column: stock.CategoricalColumn) -> stock.DenseColumn:
    """As tf.feature_column.indicator_column."""
    column = tf.feature_column.indicator_column(sparse_id_column)
    return _remember(column, f"_OneHotColumn(sparse_id_column={sort_key_of(sparse_id_column)})")


@of_tensorflow
def real_valued_column(
    column_name: str,
    dimension: int = 1,
    default_value: Any = None,
    dtype: tf.DType = tf.float32,
    normalizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> stock.DenseColumn:
    """As tf.feature_column.numeric_column."""
    column = tf.feature_column.numeric_column(
        column_name, dimension, default_value, dtype, normalizer
    )
    return _remember(column, f"_RealValuedColumn(column_name={column_name}, {dimension})")


@of_tensorflow
def bucketized_column(
    source_column: stock.DenseColumn, boundaries: Sequence[float]
) -> stock.DenseColumn:
    """As tf.feature_column.bucketized_column; a boundary that comes twice counts once."""
    column = tf.feature_column.bucketized_column(source_column, [*dict.fromkeys(boundaries)])
    return _remember(column, f"_BucketizedColumn(source_column={sort_key_of(source_column)})")


@of_tensorflow
def embedding_column(
    sparse_id_column: stock.CategoricalColumn,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> stock.DenseColumn:
    """As tf.feature_column.embedding_column, with a variable called "weights".

    The default initializer has the standard deviation 1 / sqrt(number of ids), and 1 for an
    embedding variable.
    """
    column = face.embedding_column(
        sparse_id_column,
        dimension,
        combiner,
        initializer or _initializer(sparse_id_column),
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
    )
    return _embedding(column, "weights")


def _initializer(column: stock.CategoricalColumn) -> Any:
    return tf.truncated_normal_initializer(0.0, 1 / math.sqrt(_length(column)))


def _embedding(column: stock.DenseColumn, weights_name: str) -> stock.DenseColumn:
    column.weights_name = weights_name
    source = sort_key_of(column.categorical_column)
    return _remember(column, f"_EmbeddingColumn(sparse_id_column={source}, {column.dimension})")


@of_tensorflow
def shared_embedding_columns(
    sparse_id_columns: Sequence[stock.CategoricalColumn],
    dimension: int,
    combiner: str = "mean",
    shared_embedding_name: str | None = None,
    initializer: Any = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> Sequence[stock.DenseColumn]:
    """As tf.feature_column.shared_embedding_columns, with a variable of the shared name."""
    if isinstance(sparse_id_columns, str) or not isinstance(sparse_id_columns, Sequence):
        raise TypeError(
            f"sparse_id_columns must be a list or tuple of columns, got {sparse_id_columns!r}"
        )
    if not sparse_id_columns:
        raise ValueError("sparse_id_columns must have at least one column")
    settings = (ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable)
    if len(sparse_id_columns) == 1 and not shared_embedding_name:
        return [embedding_column(sparse_id_columns[0], dimension, combiner, initializer, *settings)]
    name = shared_embedding_name or _shared_name(sparse_id_columns)
    columns = face.shared_embedding_columns(
        sparse_id_columns,
        dimension,
        combiner,
        initializer or _initializer(sparse_id_columns[0]),
        f"SHARED_EMBEDDING_COLLECTION_{name.upper()}",
        *settings,
    )
    return tuple(_embedding(column, name) for column in columns)


def _shared_name(columns: Sequence[stock.CategoricalColumn]) -> str:
    names = sorted(column.name for column in columns if not hasattr(column, "weight_feature_key"))
    names += sorted(column.name for column in columns if hasattr(column, "weight_feature_key"))
    parts, others = names[:_NAMED_BEFORE_OTHERS], names[_NAMED_BEFORE_OTHERS:]
    parts += [f"plus_{len(others)}_others"] if others else []
    return "_".join([*parts, "shared_embedding"])


@of_tensorflow
def create_feature_spec_for_parsing(feature_columns: Iterable[Column]) -> dict[str, Any]:
    """{key: how tf.parse_example reads it}"""
    return tf.feature_column.make_parse_example_spec(list(feature_columns))


def __getattr__(name: str) -> NoReturn:
    raise contrib.missing(f"layers.{name}")
