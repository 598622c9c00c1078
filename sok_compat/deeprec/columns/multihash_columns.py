# SPDX-License-Identifier: Apache-2.0
"""`categorical_column_with_multihash`: a column of ids for a multihash variable."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from sok_compat.deeprec.columns.embedding_columns import CategoricalColumnWithEmbedding
from sok_compat.deeprec.columns.stock_functions import of_tensorflow
from sok_compat.deeprec.variables.composed_variables import (
    MultiHashVariable,
    check_multihash,
    get_multihash_variable,
)
from sok_compat.deeprec.variables.embedding_variable import KEY_DTYPES

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class _Variable:
    """Arguments of get_multihash_variable."""

    dims: tuple[tuple[int, ...], ...]
    complementary_strategy: str
    operation: str


class CategoricalColumnWithMultihash(CategoricalColumnWithEmbedding):
    """A column of ids without a limit, for a multihash variable: `ev_option` is its _Variable."""

    made_by = "categorical_column_with_multihash"

    def make_variable(  # type: ignore[override]
        self,
        name: str,
        dimension: int,
        initializer: Any,
        trainable: bool,
        collections: list[str],
    ) -> MultiHashVariable:
        """See the base class.

        Raises:
          ValueError: rows of the variable do not have the size `dimension`.
        """
        num_parts, of_variable = self.partition_num, dataclasses.asdict(self.ev_option)
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


@of_tensorflow
def categorical_column_with_multihash(
    key: str,
    dims: Sequence[Sequence[int]],
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
      dims: as for get_multihash_variable.
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
    check_multihash(f"the column {key!r}", dims, 2, complementary_strategy, operation)
    of_variable = _Variable(tuple(map(tuple, dims)), complementary_strategy, operation)
    return CategoricalColumnWithMultihash.checked(key, dtype, partition_num, of_variable)


NAMES = {"feature_column.categorical_column_with_multihash": categorical_column_with_multihash}
