# SPDX-License-Identifier: Apache-2.0
"""`tf.contrib.lookup`: tables of words and numbers, most of which TensorFlow 2 has elsewhere."""

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


def index_table_from_tensor(mapping, *args, **kwargs):
    """A table from the strings, or integers, of a vector to their places."""
    return lookup_ops.index_table_from_tensor(mapping, *args, **kwargs)


def index_to_string_table_from_tensor(mapping, default_value="UNK", name=None):
    """A table from places to the strings of a vector."""
    return lookup_ops.index_to_string_table_from_tensor(mapping, default_value, name)


__all__ = sorted((*_SAME, *_OF_TENSOR))


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _SAME:
        return getattr(lookup_ops, name)
    if hasattr(tf.lookup, name):
        return getattr(tf.lookup, name)
    raise contrib.missing(f"lookup.{name}")
