# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's classes and functions of feature columns, and private members of columns."""

from __future__ import annotations

import importlib
import types
from typing import Any

import tensorflow as tf

_OF_FEATURE_COLUMNS = {  # module: names; the first has input_layer, the second its columns
    "feature_column": (
        *("_CategoricalColumn", "_DenseColumn", "_LazyBuilder", "_SequenceDenseColumn"),
        *("_SharedEmbeddingColumn", "_normalize_feature_columns"),
        *("_to_sparse_input_and_drop_ignore_values", "_verify_static_batch_size_equality"),
    ),
    "feature_column_v2": (
        *("BucketizedColumn", "CrossedColumn", "EmbeddingColumn", "HashedCategoricalColumn"),
        *("IdentityCategoricalColumn", "SequenceCategoricalColumn"),
    ),
}


def _feature_columns():
    """TensorFlow's classes and functions of feature columns by name, and `missing`.

    If one is missing, `missing` describes it, and all names are empty classes: subclasses can be
    defined, and raise when used. Otherwise it is None.
    """
    found, missing = {}, None
    for module, names in _OF_FEATURE_COLUMNS.items():
        try:
            module = importlib.import_module(f"tensorflow.python.feature_column.{module}")
            found.update((name.lstrip("_"), getattr(module, name)) for name in names)
        except (AttributeError, ImportError) as error:
            missing = missing or str(error)
    if missing:
        names = [name.lstrip("_") for group in _OF_FEATURE_COLUMNS.values() for name in group]
        found = {name: type(name, (), {}) for name in names}
    return types.SimpleNamespace(missing=missing, **found)


feature_columns = _feature_columns()


def scope_name(column: Any) -> str:
    """The name of the variable scope of a dense column."""
    return column._var_scope_name


def width_of(column: Any) -> int:
    """How many numbers a dense column has for an example."""
    return column._variable_shape.num_elements()


def dense_tensor(column: Any, builder: Any, **options: Any) -> tf.Tensor:
    """The tensor of a dense column; options are weight_collections and trainable."""
    return column._get_dense_tensor(builder, **options)


def sparse_tensors(column: Any, builder: Any, collections: Any, trainable: bool | None) -> Any:
    """(ids, weights) of a categorical column."""
    return column._get_sparse_tensors(builder, weight_collections=collections, trainable=trainable)


def is_of_sequences(column: Any) -> bool:
    """Whether a dense column has a tensor for each step of a sequence."""
    return hasattr(column, "_get_sequence_dense_tensor")


def sequence_tensor(column: Any, builder: Any, collections: Any, trainable: bool) -> Any:
    """(tensor, lengths) of a column of sequences."""
    return column._get_sequence_dense_tensor(
        builder, weight_collections=collections, trainable=trainable
    )
