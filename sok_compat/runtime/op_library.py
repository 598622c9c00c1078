# SPDX-License-Identifier: Apache-2.0
"""Loads the op library; its ops are `ops.sok_table_size(...)` and so on."""

from __future__ import annotations

import ctypes
import os

import tensorflow as tf


def library_path() -> str | os.PathLike[str]:
    """Path of the op library.

    Raises:
      ImportError: it was not built, or was built for another TensorFlow.
    """
    try:
        from sok_compat.runtime import _build_info
    except ImportError as error:
        raise ImportError(
            "this sok_compat was built without its TensorFlow op library (SOK_TENSORFLOW=OFF); "
            "only sok_compat.HashTable works. Install TensorFlow, then sok_compat again."
        ) from error
    built_for = _build_info.TENSORFLOW_VERSION
    if built_for != tf.__version__:
        raise ImportError(
            f"sok_compat's op library was built for TensorFlow {built_for}, but {tf.__version__} "
            "is installed. Build it again: pip install --force-reinstall --no-cache-dir sok_compat"
        )
    return _build_info.OPS_LIBRARY


ops = tf.load_op_library(str(library_path()))
# The library's C functions, sok_exchange_... and so on.
c_library = ctypes.CDLL(str(library_path()))
c_library.sok_exchange_start.argtypes = (
    [ctypes.c_int] * 2 + [ctypes.c_double] * 2 + [ctypes.c_int64]
)
c_library.sok_exchange_silent_seconds.restype = ctypes.c_double
c_library.sok_exchange_num_saturated.restype = ctypes.c_int64
c_library.sok_checkpoint_bytes.restype = ctypes.c_int64


def note_lookup(name: str) -> None:
    """Tells the exchange that a graph of this process has a lookup of this name."""
    c_library.sok_exchange_note_lookup(name.encode())
