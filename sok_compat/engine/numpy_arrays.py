# SPDX-License-Identifier: Apache-2.0
"""Arrays of tables on the CPU: NumPy's."""

import contextlib

import numpy as np

from sok_compat.engine.arrays import as_keys, as_rows


class NumpyArrays:
    """What HashTable wants of arrays; see cupy_arrays.CupyArrays for those on a GPU."""

    keys = staticmethod(as_keys)
    rows = staticmethod(as_rows)
    empty = staticmethod(np.empty)

    @staticmethod
    def address(array: np.ndarray) -> int:
        return array.ctypes.data

    @staticmethod
    def current_stream() -> int:
        return 0

    @staticmethod
    def on_stream(stream):
        if stream is not None:
            raise ValueError(
                f"stream is for tables on a GPU, and this one is on the CPU, got {stream!r}"
            )
        return contextlib.nullcontext()
