# SPDX-License-Identifier: Apache-2.0
"""Checks and shapes of the keys of lookups."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.runtime.checked import checked
from sok_compat.tables.table import Table


def checked_keys(table: Table, keys: Any, name: str | None = None) -> tf.Tensor:
    """Returns `keys` as a tensor of the table's key_dtype, or int32 for int64: ops widen them.

    Raises:
      ValueError: keys have another dtype.
    """
    keys = tf.convert_to_tensor(keys)
    is_narrower = keys.dtype == tf.int32 and table.key_dtype == tf.int64
    if keys.dtype != table.key_dtype and not is_narrower:
        wanted = "int64 or int32" if table.key_dtype == tf.int64 else table.key_dtype.name
        raise ValueError(
            f"{name or table.table_name}: keys must be {wanted}, as the key_dtype is "
            f"{table.key_dtype.name}, got {keys.dtype.name}; use tf.cast, or key_dtype='int64' or "
            "'uint32'"
        )
    return keys


def integer_keys(keys: Any, called: str, pools: str) -> tf.Tensor:
    """Returns `keys`, of any integer dtype, as an int64 tensor.

    Args:
      called: the keys in messages, such as "keys of users".
      pools: the function that pools bags of keys.

    Raises:
      TypeError: keys are not integers, or not a dense tensor.
    """
    if isinstance(keys, (tf.SparseTensor, tf.RaggedTensor)):
        raise TypeError(
            f"{called} must be a dense tensor here, got {type(keys).__name__}: use {pools} to pool "
            "bags"
        )
    keys = tf.convert_to_tensor(keys)
    check_integers(keys.dtype, called)
    return tf.cast(keys, tf.int64)


def check_integers(dtype: tf.DType, called: str) -> None:
    """Checks the dtype of keys, called so in messages.

    Raises:
      TypeError: it is none of integers.
    """
    if not dtype.is_integer:
        hashed = "tf.strings.to_hash_bucket_fast makes integers of strings"
        way_out = hashed if dtype == tf.string else "tf.cast(..., tf.int64) makes integers of them"
        raise TypeError(f"{called} must be integers, got {dtype.name}: {way_out}")


def in_shape_of(keys: tf.Tensor, rows: tf.Tensor, dim: int) -> tf.Tensor:
    """Reshapes rows [number of keys, dim] to [*shape of the keys, dim], statically if at most one
    axis is unknown."""
    sizes = [None, None] if keys.shape.rank is None else keys.shape.as_list()
    if len(sizes) == 1:
        output = rows
    elif sizes.count(None) <= 1 and 0 not in sizes:  # -1 beside a 0 is ambiguous
        return tf.reshape(rows, [*(-1 if size is None else size for size in sizes), dim])
    else:
        output = tf.reshape(rows, tf.concat([tf.shape(keys), [dim]], 0))
    output.set_shape(keys.shape.concatenate([dim]))
    return output


def int32_keys(ids: Any, keys: tf.Tensor, called: str, way_out: str) -> tf.Tensor:
    """Returns keys; fails when run if one does not fit in int32.

    Raises:
      tf.errors.InvalidArgumentError: when run: a key does not fit.
    """
    if ids.dtype.max <= tf.int32.max:
        return keys
    flat = tf.reshape(keys, [-1])
    wide = tf.boolean_mask(flat, tf.logical_or(flat < tf.int32.min, flat > tf.int32.max))
    message = f"{called} must fit in int32, {way_out}. Those that do not:"
    return checked(keys, tf.equal(tf.size(wide), 0), message, wide)
