# SPDX-License-Identifier: Apache-2.0
"""Tables on any device for one suite of tests: arrays go in as each device takes them."""

import numpy as np
import pytest

from sok_compat import HashTable


def _why_no_gpu():
    try:
        HashTable(1, device="cuda")
    except RuntimeError as error:
        return str(error)
    return None


WHY_NO_GPU = _why_no_gpu()
skip_without_gpu = pytest.mark.skipif(WHY_NO_GPU is not None, reason=f"no GPU: {WHY_NO_GPU}")


class OnlyDLPack:
    """An array of which nothing is known but DLPack."""

    def __init__(self, array):
        self.__dlpack__ = array.__dlpack__
        self.__dlpack_device__ = array.__dlpack_device__


class OnlyCudaArrayInterface:
    """An array of which nothing is known but __cuda_array_interface__."""

    def __init__(self, array):
        self._array = array  # keeps the memory
        self.__cuda_array_interface__ = array.__cuda_array_interface__


# What arrays on the host become before they are given to a table on the GPU.
ARRAYS_ON_GPU = {
    "cuda:0-numpy": None,
    "cuda:0-cupy": lambda array: array,
    "cuda:0-dlpack": OnlyDLPack,
    "cuda:0-cuda_array_interface": OnlyCudaArrayInterface,
}


class NewTable:
    """Called as HashTable is: a table of that device that gives NumPy arrays.

    `engine` is a device of HashTable, or "host queue", `xp` NumPy or CuPy: arrays of either can be
    given to the table, and sequences.
    """

    def __init__(self, kind):
        self.engine, _, arrays = kind.partition("-")
        self.device = "cpu" if self.engine == "host queue" else self.engine
        self._wrap = ARRAYS_ON_GPU.get(kind)
        self.xp = np if arrays in ("", "numpy") else pytest.importorskip("cupy")

    def __call__(self, *arguments, **options):
        table = _HostTable(*arguments, device=self.device, **options)
        table.give = self._give
        return table

    def _give(self, array):
        if self.xp is np:
            return array
        if isinstance(array, (list, np.ndarray)):
            host = np.asarray(array)
            is_number = host.dtype.kind in "iuf" and host.dtype.isnative
            if not is_number or (host.dtype.kind == "f" and isinstance(array, list)):
                return array  # what CuPy has no type for, and lists of which NumPy makes floats
            array = self.xp.asarray(host)
        return self._wrap(array) if isinstance(array, self.xp.ndarray) else array


class _HostTable(HashTable):
    def insert(self, keys, rows=None, **options):
        rows = None if rows is None else self.give(rows)
        return to_host(super().insert(self.give(keys), rows, **options))

    def find(self, keys, **options):
        return to_host(super().find(self.give(keys), **options))

    def gather(self, keys, **options):
        return to_host(super().gather(self.give(keys), **options))

    def scatter_add(self, keys, values, **options):
        super().scatter_add(self.give(keys), self.give(values), **options)

    def assign(self, keys, rows, **options):
        super().assign(self.give(keys), self.give(rows), **options)

    def erase(self, keys, **options):
        return super().erase(self.give(keys), **options)

    def export(self, **options):
        keys, rows = super().export(**options)
        return to_host(keys), to_host(rows)


def to_host(array):
    return array.get() if hasattr(array, "get") else array
