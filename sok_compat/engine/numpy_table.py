# SPDX-License-Identifier: Apache-2.0
"""The table on the CPU for HashTable: NumPy arrays in and out."""

import contextlib

import numpy as np

from sok_compat.engine import _engine
from sok_compat.engine.arrays import as_keys, as_rows


class NumpyTable:
    """What HashTable wants of a table; see cuda_table.CudaTable for the other one."""

    def __init__(self, options, num_threads: int):
        self.stored = _engine.StoredTable(options, num_threads)
        self.find = self.stored.find
        self.insert = self.stored.insert
        self.gather = self.stored.gather
        self.scatter_add = self.stored.scatter_add
        self.assign = self.stored.assign
        self.erase = self.stored.erase
        self.clear = self.stored.clear

    keys = staticmethod(as_keys)
    rows = staticmethod(as_rows)
    empty = staticmethod(np.empty)

    @staticmethod
    def on_stream(stream):
        if stream is not None:
            raise ValueError(
                f"stream is for tables on a GPU, and this one is on the CPU, got {stream!r}"
            )
        return contextlib.nullcontext()

    def export(self, dim: int):
        del dim  # the array that comes back has it
        return self.stored.export()
