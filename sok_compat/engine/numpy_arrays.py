# SPDX-License-Identifier: Apache-2.0
"""Arrays of tables on the CPU: NumPy's."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

import numpy as np

from sok_compat.engine.arrays import as_keys, as_rows


class NumpyArrays:
    """HashTable's interface to arrays on the CPU; see cupy_arrays.CupyArrays for a GPU."""

    keys = staticmethod(as_keys)
    rows = staticmethod(as_rows)
    empty = staticmethod(np.empty)

    @staticmethod
    def address(array: np.ndarray) -> int:
        """Returns the address of an array's first element."""
        return array.ctypes.data

    @staticmethod
    def current_stream() -> int:
        """Returns 0: the CPU has no streams."""
        return 0

    @staticmethod
    def on_stream(stream: object) -> AbstractContextManager[None]:
        """Context of a call; stream must be None."""
        if stream is not None:
            raise ValueError(
                f"stream is for tables on a GPU, but this one is on the CPU, got {stream!r}"
            )
        return contextlib.nullcontext()
