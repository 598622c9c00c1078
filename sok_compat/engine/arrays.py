# SPDX-License-Identifier: Apache-2.0
"""Converts a caller's keys and rows to arrays for the C++ module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

KEY_DTYPES = {name: np.dtype(name) for name in ("int64", "uint32")}


def parse_key_dtype(key_dtype: str | type | np.dtype) -> np.dtype:
    """Returns np.dtype('int64') or np.dtype('uint32')."""
    try:
        dtype = np.dtype(key_dtype)
    except TypeError:
        dtype = None
    if dtype not in KEY_DTYPES.values():
        raise ValueError(f"key_dtype must be one of {sorted(KEY_DTYPES)}, got {key_dtype!r}")
    return dtype


def as_keys(keys: ArrayLike, key_dtype: np.dtype) -> np.ndarray:
    """Returns `keys`, integers within `key_dtype`, as a contiguous int64 vector."""
    array = keys if isinstance(keys, np.ndarray) else _array_of(keys)
    if array.dtype.kind == "O" and all(isinstance(key, (int, np.integer)) for key in array.flat):
        _check_range(array, key_dtype)
        array = array.astype(np.int64)
    check_key_array(array, key_dtype)
    return np.ascontiguousarray(array, dtype=np.int64)


def check_key_array(array: Any, key_dtype: np.dtype) -> None:
    """Raises unless a NumPy or CuPy array is a vector of integers within `key_dtype`."""
    if array.dtype.kind not in "iu":
        raise TypeError(f"keys must be integers, got an array of {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"keys must have one dimension, got the shape {array.shape}")
    if not np.can_cast(array.dtype, key_dtype, "safe"):
        _check_range(array, key_dtype)


def as_rows(rows: ArrayLike, num_keys: int, dim: int, what: str) -> np.ndarray:
    """Returns `rows` as a contiguous float32 matrix [num_keys, dim]."""
    array = np.asarray(rows)
    check_row_array(array, num_keys, dim, what)
    return np.ascontiguousarray(array, dtype=np.float32)


def check_row_array(array: Any, num_keys: int, dim: int, what: str) -> None:
    """Raises unless a NumPy or CuPy array is a matrix of real numbers [num_keys, dim]."""
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{what} must be real numbers, got an array of {array.dtype}")
    if array.shape != (num_keys, dim):
        raise ValueError(
            f"{what} must have the shape [number of keys, dim] = {(num_keys, dim)}, "
            f"got {array.shape}"
        )


def _array_of(keys: ArrayLike) -> np.ndarray:
    """np.asarray, except that mixed integers do not become floats, but objects."""
    array = np.asarray(keys)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        objects = np.array(keys, dtype=object)
        if all(isinstance(key, (int, np.integer)) for key in objects.flat):
            return objects  # as in [0, 2**63]
    return array


def _check_range(array: Any, key_dtype: np.dtype) -> None:
    limits = np.iinfo(key_dtype)
    low, high = limits.min, limits.max
    if array.dtype.kind != "O":  # in the array's dtype, or NumPy compares 2**63 as a float
        own = np.iinfo(array.dtype)
        low, high = array.dtype.type(max(low, own.min)), array.dtype.type(min(high, own.max))
    outside = ((array < low) | (array > high)).ravel()
    if outside.any():
        first = int(outside.argmax())
        raise ValueError(
            f"{key_dtype} keys go from {limits.min} to {limits.max}, got {array.ravel()[first]} "
            f"at position {first}"
        )
