# SPDX-License-Identifier: Apache-2.0
"""Loads the op library; its ops are `ops.sok_table_size(...)` and so on."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import tensorflow as tf

from sok_compat.runtime.built_libraries import library_for
from sok_compat.runtime.error_texts import without_names


class _Ops:
    """The ops of a library; their errors in eager mode are the op's message alone."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def __dir__(self) -> list[str]:
        return dir(self._library)

    def __getattr__(self, name: str) -> Any:
        op = getattr(self._library, name)

        @tf.autograph.experimental.do_not_convert
        @functools.wraps(op)
        def call(*args, **kwargs):
            try:
                return op(*args, **kwargs)
            except tf.errors.OpError as error:
                message = without_names(error.message)
                payloads = error.experimental_payloads
                raise type(error)(error.node_def, error.op, message, payloads) from None

        setattr(self, name, call)
        return call


_path = str(library_for(tf.__version__))
ops = _Ops(tf.load_op_library(_path))
# The library's C functions, sok_exchange_... and so on.
c_library = ctypes.CDLL(_path)
c_library.sok_exchange_start.argtypes = (
    [ctypes.c_int] * 2 + [ctypes.c_double] * 2 + [ctypes.c_int64]
)
c_library.sok_exchange_silent_seconds.restype = ctypes.c_double
c_library.sok_exchange_num_saturated.restype = ctypes.c_int64
c_library.sok_exchange_ranks_alike.restype = ctypes.c_uint64
c_library.sok_saved_bytes.restype = ctypes.c_int64
c_library.sok_restored_bytes.restype = ctypes.c_int64
c_library.sok_exchange_note_lookup.argtypes = [ctypes.c_char_p, ctypes.c_int64]
TAKE_STRING = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
c_library.sok_exchange_strings.argtypes = [
    *(ctypes.c_char_p, ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int, ctypes.c_int),
    *(TAKE_STRING, ctypes.c_char_p, ctypes.c_int64),
]
TAKE_FIGURES = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64))
c_library.sok_table_statistics.argtypes = [TAKE_FIGURES]


def note_lookup(name: str, graph: int) -> None:
    """Tells the exchange that the graph of this number has a lookup of this name."""
    c_library.sok_exchange_note_lookup(name.encode(), graph)
