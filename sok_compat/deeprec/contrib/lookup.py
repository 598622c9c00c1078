# SPDX-License-Identifier: Apache-2.0
"""`tf.contrib.lookup`: vocabulary tables, most of which TensorFlow 2 has elsewhere."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import lookup_ops

from sok_compat.deeprec import contrib

_SAME = (
    "HashTable",
    "IdTableWithHashBuckets",
    "KeyValueTensorInitializer",
    "LookupInterface",
    "MutableHashTable",
    "TextFileIdTableInitializer",
    "TextFileIndex",
    "TextFileInitializer",
    "TextFileStringTableInitializer",
    "index_table_from_file",
    "index_to_string_table_from_file",
)
_OF_TENSOR = ("index_table_from_tensor", "index_to_string_table_from_tensor")


def index_table_from_tensor(mapping: Any, *args: Any, **kwargs: Any) -> lookup_ops.LookupInterface:
    """A table from the strings, or integers, of a vector to their indices."""
    return lookup_ops.index_table_from_tensor(mapping, *args, **kwargs)


def index_to_string_table_from_tensor(
    mapping: Any, default_value: str = "UNK", name: str | None = None
) -> lookup_ops.LookupInterface:
    """A table from indices to the strings of a vector."""
    return lookup_ops.index_to_string_table_from_tensor(mapping, default_value, name)


__all__ = sorted((*_SAME, *_OF_TENSOR))


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _SAME:
        return getattr(lookup_ops, name)
    if hasattr(tf.lookup, name):
        return getattr(tf.lookup, name)
    raise contrib.missing(f"lookup.{name}")
