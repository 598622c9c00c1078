# SPDX-License-Identifier: Apache-2.0
"""`categorical_column_with_multihash`: a column of ids for a multihash variable."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from sok_compat.deeprec.columns.embedding_columns import (
    CategoricalColumnWithEmbedding,
    source_of,
)
from sok_compat.deeprec.columns.stock_functions import of_tensorflow
from sok_compat.deeprec.variables.composed_variables import (
    MultiHashVariable,
    check_multihash,
    get_multihash_variable,
)
from sok_compat.deeprec.variables.embedding_variable import KEY_DTYPES
from sok_compat.runtime.tf_versions.columns import feature_columns as stock
from sok_compat.tables.first_value import Initializer

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class _Variable:
    """Arguments of get_multihash_variable."""

    dims: tuple[Any, ...]  # (rows, rows) before an embedding column adds the floats of a row
    complementary_strategy: str
    operation: str


class CategoricalColumnWithMultihash(CategoricalColumnWithEmbedding):
    """A column of ids without a limit, for a multihash variable: `ev_option` is its _Variable."""

    made_by = "categorical_column_with_multihash"

    def make_variable(  # type: ignore[override]
        self,
        name: str,
        dimension: int,
        initializer: Initializer,
        trainable: bool,
        collections: list[str],
    ) -> MultiHashVariable:
        """See the base class.

        Raises:
          ValueError: rows of the variable do not have the size `dimension`.
        """
        column, _ = with_dimensions(self, dimension)
        num_parts, of_variable = self.partition_num, dataclasses.asdict(column.ev_option)
        variable = get_multihash_variable(
            name,
            **of_variable,
            initializer=initializer,
            trainable=trainable,
            collections=collections,
            partitioner=tf1.fixed_size_partitioner(num_parts) if num_parts else None,
        )
        if variable.shape != [dimension]:
            raise ValueError(
                f"the column {self.key!r} of {self.made_by} has rows of {variable.shape[0]} "
                f"floats, of dims {self.ev_option.dims} by {self.ev_option.operation!r}, but the "
                f"column over it has the dimension {dimension}: make them equal"
            )
        return variable


def with_dimensions(categorical_column: stock.CategoricalColumn, dimension: Any) -> tuple[Any, Any]:
    """The column with an embedding column's dimensions, and its integer dimension.

    As in DeepRec, `dims` of a multihash column may be (rows, rows); the embedding column then has a
    dimension of each variable.

    Raises:
      ValueError: the dimension is a pair for another column, or an int for such a column.
    """
    source = source_of(categorical_column)
    if not isinstance(source, CategoricalColumnWithMultihash):
        return categorical_column, dimension
    rows, is_pair = source.ev_option.dims, isinstance(dimension, (list, tuple))
    if is_pair != isinstance(rows[0], int):
        raise ValueError(
            f"the column {source.key!r} of {source.made_by}: with dims (rows, rows) an embedding "
            f"column has the dimension (floats, floats), with dims ((rows, floats), (rows, floats))"
            f" a number, got dims {rows} and the dimension {dimension!r}"
        )
    if not is_pair:
        return categorical_column, dimension
    strategy, operation = source.ev_option.complementary_strategy, source.ev_option.operation
    dims = list(zip(rows, dimension))
    shapes = check_multihash(f"the column {source.key!r}", dims, 2, strategy, operation)
    of_variable = _Variable(tuple(map(tuple, shapes)), strategy, operation)
    number = sum(dimension) if operation == "concat" else dimension[0]
    return _with_source(categorical_column, source._replace(ev_option=of_variable)), number


def _with_source(column, source):
    if not hasattr(column, "categorical_column"):
        return source
    return column._replace(categorical_column=_with_source(column.categorical_column, source))


@of_tensorflow
def categorical_column_with_multihash(
    key: str,
    dims: Sequence[Sequence[int]] | Sequence[int],
    complementary_strategy: str = "Q-R",
    operation: str = "concat",
    dtype: tf.DType | str = tf.int64,
    partition_num: int | None = None,
) -> CategoricalColumnWithEmbedding:
    """A categorical column of integers, for a multihash variable.

    API of DeepRec. For columns that take a categorical_column_with_embedding; their dimension is
    that of the variable's rows. Columns over it are looked up one by one.

    Args:
      key: key of the feature: a SparseTensor, or a tensor in which -1 means no id.
      dims: as for get_multihash_variable; or (rows, rows), if embedding columns over it have the
        dimension (floats, floats).
      complementary_strategy: as there.
      operation: as there.
      dtype: tf.int64 or tf.int32.
      partition_num: number of parts of each of the two variables, an int >= 1; None: from the
        variable scope, or one.

    Raises:
      ValueError: an argument out of range.
    """
    dtype = tf.as_dtype(dtype)
    if dtype not in KEY_DTYPES:
        raise ValueError(f"the column {key!r}: dtype must be int64 or int32, got {dtype.name}")
    sizes = [(size, 1) if isinstance(size, int) else tuple(size) for size in dims]
    check_multihash(f"the column {key!r}", sizes, 2, complementary_strategy, operation)
    checked = tuple(size if isinstance(size, int) else tuple(size) for size in dims)
    of_variable = _Variable(checked, complementary_strategy, operation)
    return CategoricalColumnWithMultihash.checked(key, dtype, partition_num, of_variable)
