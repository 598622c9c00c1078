# SPDX-License-Identifier: Apache-2.0
"""Checks of a table's arguments."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from sok_compat.runtime.checked_values import checked_count
from sok_compat.runtime.graphs import state_here
from sok_compat.runtime.settings import FLOATS, ROW_DTYPE

KEY_DTYPES = (tf.int64, tf.uint32)
ROUNDINGS = ("stochastic", "nearest")
MAX_TABLE_BYTES = 1 << 47  # as kMostPlaneBytes in ops/engine/plane_options.h
UNDECLARED_CAPACITY = (1 << 32) - 1  # as kMaxRows in ops/engine/table_options.h


def checked_key_dtype(key_dtype: tf.DType | str | None) -> tf.DType:
    """Returns tf.int64 or tf.uint32 for a dtype, its name or None.

    Raises:
      ValueError: key_dtype is anything else.
    """
    try:
        dtype = tf.int64 if key_dtype is None else tf.as_dtype(key_dtype)
    except TypeError:
        raise ValueError(f"key_dtype must be int64 or uint32, got {key_dtype!r}") from None
    if dtype not in KEY_DTYPES:
        raise ValueError(f"key_dtype must be int64 or uint32, got {dtype.name}")
    return dtype


def checked_row_dtype(row_dtype: tf.DType | str | None, name: str = "row_dtype") -> tf.DType:
    """Returns tf.float32, tf.bfloat16 or tf.float16 for a dtype, its name or None: the one that
    `set_row_dtype` was given for the outermost graph, or for eager mode; else the environment's
    SOK_ROW_DTYPE; else tf.float32.

    Raises:
      ValueError: row_dtype is anything else; `name` is its name in the message.
    """
    if row_dtype is None:
        with tf.init_scope():
            return tf.as_dtype(state_here().row_dtype or ROW_DTYPE.value())
    try:
        dtype = tf.as_dtype(row_dtype)
    except TypeError:
        dtype = None
    if dtype is None or dtype.name not in FLOATS:
        raise ValueError(f"{name} must be one of {', '.join(FLOATS)}, got {row_dtype!r}")
    return dtype


def set_row_dtype(row_dtype: tf.DType | str | None) -> None:
    """Sets the dtype of rows of tables that are made from now on without one, in the default graph
    or in eager mode.

    Args:
      row_dtype: see `checked_row_dtype`; None: the environment's.

    Raises:
      ValueError: the dtype is none of these.
    """
    name = None if row_dtype is None else checked_row_dtype(row_dtype).name
    with tf.init_scope():
        state_here().row_dtype = name


def checked_rounding(rounding: Any) -> str:
    """Returns a rounding of rows of two bytes.

    Raises:
      ValueError: it is not one of ROUNDINGS.
    """
    if rounding not in ROUNDINGS:
        raise ValueError(f"rounding must be one of {', '.join(ROUNDINGS)}, got {rounding!r}")
    return rounding


def checked_sizes(capacity: Any, dim: Any) -> tuple[int | None, int]:
    """Returns (capacity, dim) as ints; a capacity of None stays None.

    Raises:
      ValueError: one is not an int >= 1, or the rows exceed the address space.
    """
    dim = checked_count("dim", dim, 1)
    if capacity is None:
        return None, dim
    capacity = checked_count("capacity", capacity, 1)
    if capacity == UNDECLARED_CAPACITY:
        raise ValueError(f"a capacity of {capacity} is reserved: use a smaller one, or None")
    if capacity * dim * tf.float32.size > MAX_TABLE_BYTES:
        raise ValueError(
            f"a table of {capacity} rows of {dim} floats does not fit into the {MAX_TABLE_BYTES} "
            "bytes that a process can address; lower its capacity"
        )
    return capacity, dim


def checked_files(storage_path: Any, memory_bytes: Any) -> dict[str, Any]:
    """Returns the attributes of ops that make planes in files; {}: planes are in memory.

    Raises:
      ValueError: one without the other, a path that is no folder, or a size that is no int >= 1.
    """
    if storage_path is None:
        if memory_bytes is not None:
            raise ValueError(
                f"memory_bytes {memory_bytes!r} needs a storage_path: without one all rows are in "
                "memory"
            )
        return {}
    needed = f"storage_path {storage_path!r} needs memory_bytes, the most bytes in memory, which"
    memory_bytes = checked_count(needed, memory_bytes, 1)
    path = os.path.abspath(os.fspath(storage_path))
    if not os.path.isdir(path):
        raise ValueError(f"storage_path must be an existing folder on a disk, got {path!r}")
    return {"storage_path": path, "memory_bytes": memory_bytes}
