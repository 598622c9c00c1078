# SPDX-License-Identifier: Apache-2.0
"""The table on the CPU for HashTable: NumPy arrays in and out."""

import numpy as np

from sok_compat.engine import _engine
from sok_compat.engine.arrays import as_keys, as_rows


class NumpyTable:
    """What HashTable wants of a table; see cuda_table.CudaTable for the other one."""

    def __init__(self, options, num_threads: int):
        self._table = _engine.StoredTable(options, num_threads)
        self.find = self._table.find
        self.insert = self._table.insert
        self.gather = self._table.gather
        self.scatter_add = self._table.scatter_add
        self.assign = self._table.assign
        self.erase = self._table.erase
        self.clear = self._table.clear

    keys = staticmethod(as_keys)
    rows = staticmethod(as_rows)
    empty = staticmethod(np.empty)

    @property
    def size(self) -> int:
        return self._table.size

    @property
    def index_bytes(self) -> int:
        return self._table.index_bytes

    @property
    def row_bytes(self) -> int:
        return self._table.row_bytes

    def export(self, dim: int):
        del dim  # the array that comes back has it
        return self._table.export()
