# SPDX-License-Identifier: Apache-2.0
"""`feature_column`: columns over embedding variables, and groups of columns with one lookup.

Columns over ordinary variables are TensorFlow's own. Columns of a group have its name as an
attribute.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.deeprec.columns.adaptive_columns import (
    AdaptiveEmbeddingColumn,
    check_may_be_embedded,
    is_adaptive,
)
from sok_compat.deeprec.columns.embedding_columns import (
    CategoricalColumnWithEmbedding,
    EmbeddingVariableColumn,
    SharedEmbeddingVariableColumn,
    is_of_embedding_variable,
    source_of,
)
from sok_compat.deeprec.columns.multihash_columns import with_dimensions
from sok_compat.deeprec.columns.stock_functions import ignore_fusion, of_tensorflow
from sok_compat.deeprec.variables.options import EmbeddingVariableOption
from sok_compat.runtime.tf_versions.columns import feature_columns as stock
from sok_compat.tables.first_value import Initializer

tf1 = tf.compat.v1

_group: contextvars.ContextVar[str | None] = contextvars.ContextVar("_group", default=None)
_COMBINERS = ("mean", "sqrtn", "sum")
_numbers = itertools.count()  # of scopes without a name


@of_tensorflow
@contextlib.contextmanager
def group_embedding_column_scope(
    name: str | None = None, params_num_per_group: int = sys.maxsize
) -> Iterator[str]:
    """Groups the embedding columns made inside it: `input_layer` looks them up together.

    API of DeepRec. Names, shapes, values and gradients are those of the same columns without a
    group, except that the weights of an embedding variable's ids get no gradient. The innermost
    scope applies.

    Args:
      name: the group's name; scopes with the same name form one group. None: a group of its own.
      params_num_per_group: ignored; it changes no result.

    Yields:
      The group's name, which its columns have as `group_name`.
    """
    del params_num_per_group
    group = f"group_embedding_column_scope_{next(_numbers) if name is None else name}"
    before = _group.set(group)
    try:
        yield group
    finally:
        _group.reset(before)


@of_tensorflow
def categorical_column_with_embedding(
    key: str,
    dtype: tf.DType | str = tf.string,
    partition_num: int | None = None,
    ev_option: EmbeddingVariableOption | None = None,
) -> CategoricalColumnWithEmbedding:
    """A categorical column of any ids, for an embedding variable.

    API of DeepRec. For `embedding_column` and `shared_embedding_columns`, alone or in a
    `weighted_categorical_column`; and, for its ids only, in a `crossed_column`.

    Args:
      key: key of the feature: a SparseTensor, or a tensor in which '' or -1 mean no id.
      dtype: tf.string: hashes values to int64 as DeepRec does, so that checkpoints have the same
        keys. tf.int64 or tf.int32: values are the ids.
      partition_num: number of parts of the variable, an int >= 1; None: from the variable scope, or
        one. Columns over several parts are looked up one by one.
      ev_option: an EmbeddingVariableOption; None: the defaults.

    Raises:
      ValueError: an argument out of range.
    """
    return CategoricalColumnWithEmbedding.checked(key, dtype, partition_num, ev_option)


@of_tensorflow
def embedding_column(
    categorical_column: stock.CategoricalColumn,
    dimension: int | Sequence[int],
    combiner: str = "mean",
    initializer: Initializer = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    coalesced_scope: Any = None,
    do_fusion: bool = False,
    use_safe_embedding_lookup: bool = True,
) -> stock.EmbeddingColumn:
    """As tf.compat.v1.feature_column.embedding_column. API of DeepRec.

    Other arguments are as there.

    Args:
      categorical_column: as in TensorFlow, or a categorical_column_with_embedding,
        categorical_column_with_adaptive_embedding or categorical_column_with_multihash.
      coalesced_scope: None.
      do_fusion: ignored; it changes no result.

    Raises:
      TypeError: an adaptive column in a group_embedding_column_scope.
      ValueError: as in TensorFlow; unknown combiner; weights of an adaptive column.
      NotImplementedError: a coalesced_scope; ckpt_to_load_from for an embedding variable.
    """
    ignore_fusion(do_fusion)
    _check_combiner(combiner)
    _check_not_coalesced(coalesced_scope)
    categorical_column, dimension = with_dimensions(categorical_column, dimension)
    column = tf1.feature_column.embedding_column(
        categorical_column,
        dimension,
        combiner,
        initializer,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
        use_safe_embedding_lookup,
    )
    if is_adaptive(categorical_column):
        check_may_be_embedded(categorical_column, _group.get())
        _check_no_checkpoint(column)
        column = AdaptiveEmbeddingColumn(**column._asdict())
    elif is_of_embedding_variable(categorical_column):
        _check_no_checkpoint(column)
        column = EmbeddingVariableColumn(**column._asdict())
    return _in_group(column)


@of_tensorflow
def shared_embedding_columns(
    categorical_columns: Iterable[stock.CategoricalColumn],
    dimension: int | Sequence[int],
    combiner: str = "mean",
    initializer: Initializer = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    coalesced_scope: Any = None,
    do_fusion: bool = False,
    use_safe_embedding_lookup: bool = True,
) -> list[stock.SharedEmbeddingColumn]:
    """As tf.compat.v1.feature_column.shared_embedding_columns. API of DeepRec.

    Other arguments are as there.

    Args:
      categorical_columns: as in TensorFlow; or only categorical_column_with_embedding with the
        same arguments except the key.
      coalesced_scope: None.
      do_fusion: ignored; it changes no result.

    Raises:
      ValueError: as in TensorFlow.
      NotImplementedError: as embedding_column.
    """
    ignore_fusion(do_fusion)
    _check_combiner(combiner)
    _check_not_coalesced(coalesced_scope)
    settings = dict(
        dimension=dimension,
        combiner=combiner,
        initializer=initializer,
        ckpt_to_load_from=ckpt_to_load_from,
        tensor_name_in_ckpt=tensor_name_in_ckpt,
        max_norm=max_norm,
        trainable=trainable,
        use_safe_embedding_lookup=use_safe_embedding_lookup,
    )
    collection = shared_embedding_collection_name
    make: Callable[..., Any] = tf1.feature_column.shared_embedding_columns
    bound = [with_dimensions(column, dimension) for column in categorical_columns]
    categorical_columns = [column for column, _ in bound]
    settings["dimension"] = bound[0][1] if bound else dimension
    if any(map(is_of_embedding_variable, categorical_columns)):
        make = _shared_columns_of_embedding_variable
    columns = make(categorical_columns, shared_embedding_collection_name=collection, **settings)
    return [_in_group(column) for column in columns]


def _in_group(column: stock.DenseColumn) -> Any:
    """The column, with the name of the current group scope, if any."""
    if _group.get() is not None:
        column.group_name = _group.get()
    return column


def _shared_columns_of_embedding_variable(
    categorical_columns: list[stock.CategoricalColumn],
    shared_embedding_collection_name: str | None,
    **settings: Any,
) -> list[SharedEmbeddingVariableColumn]:
    """SharedEmbeddingVariableColumns, with the checks of TensorFlow's own columns."""
    sources = [source_of(column) for column in categorical_columns]
    if len({source[1:] if isinstance(source, tuple) else None for source in sources}) > 1:
        raise ValueError(
            "columns that share an embedding variable must be of categorical_column_with_embedding "
            f"with the same arguments except the key, got {sources}"
        )
    columns = [
        tf1.feature_column.embedding_column(column, **settings) for column in categorical_columns
    ]
    _check_no_checkpoint(columns[0])
    names = sorted(column.name for column in categorical_columns)
    collection = shared_embedding_collection_name or f"{'_'.join(names)}_shared_embedding"
    same = dict(initializer=columns[0].initializer, shared_embedding_collection_name=collection)
    return [SharedEmbeddingVariableColumn(**{**c._asdict(), **same}) for c in columns]


def _check_combiner(combiner: str) -> None:
    if combiner not in _COMBINERS:
        raise ValueError(f"combiner must be one of {', '.join(_COMBINERS)}, got {combiner!r}")


def _check_not_coalesced(coalesced_scope: Any) -> None:
    if coalesced_scope is not None:
        raise NotImplementedError(
            f"sok_compat does not support coalesced scopes, got {coalesced_scope!r}: make the "
            "columns in a group_embedding_column_scope to look them up together"
        )


def _check_no_checkpoint(column: stock.DenseColumn) -> None:
    if column.ckpt_to_load_from is not None:
        raise NotImplementedError(
            f"the column {column.name!r} of an embedding variable cannot start from the checkpoint "
            f"{column.ckpt_to_load_from!r}: restore it with tf.train.Saver"
        )
