# SPDX-License-Identifier: Apache-2.0
"""HashTable: integer keys -> rows of float32 that grow with the keys, on NumPy or CuPy arrays."""

import operator
import os
from typing import Optional

import numpy as np

from sok_compat.engine import _engine
from sok_compat.engine.arrays import parse_key_dtype
from sok_compat.engine.cuda_table import CudaTable, parse_device
from sok_compat.engine.initializers import (
    Constant,
    Normal,
    TruncatedNormal,
    Uniform,
    parse_initializer,
)
from sok_compat.engine.numpy_table import NumpyTable

_KINDS = {
    Uniform: _engine.FirstValueKind.UNIFORM,
    Normal: _engine.FirstValueKind.NORMAL,
    TruncatedNormal: _engine.FirstValueKind.TRUNCATED_NORMAL,
    Constant: _engine.FirstValueKind.CONSTANT,
}


class HashTable:
    """A table of rows, each `dim` float32, by integer key.

    A key gets the next free row id (0, 1, 2, ...) when it is inserted and keeps it until it is
    erased. Its row starts with a first value that depends on `seed`, `name` and the key alone, so
    that two tables agree whatever the order in which keys come.

    Keys are one-dimensional arrays or sequences of integers and may repeat. All methods may be
    called from several threads at once, and a call that raises leaves the table as it was.

    With device="cuda:0" keys and rows live in the memory of that GPU. Methods then take arrays on
    it (CuPy's, or any with __cuda_array_interface__ or DLPack), or what they take on the CPU, and
    return CuPy arrays. Calls run on CuPy's current stream, or on the one given as `stream` (CuPy's,
    any with __cuda_stream__, or a handle), and take effect in the order in which they were made
    also where streams differ. `find`, `gather` and, as long as the table need not grow, `insert`
    return before they have run; the others wait.

    >>> table = HashTable(dim=2, initializer="zeros")
    >>> table.insert([7, -1, 7])
    array([0, 1, 0])
    >>> table.scatter_add([7, 7], [[1, 2], [10, 20]])
    >>> table.gather([7, 5])
    array([[11., 22.],
           [ 0.,  0.]], dtype=float32)
    """

    def __init__(
        self,
        dim: int,
        capacity: int = 1 << 28,
        *,
        name: str = "table",
        initializer="uniform",
        seed: int = 0,
        key_dtype="int64",
        num_threads: Optional[int] = None,
        device: str = "cpu",
    ):
        """An empty table.

        Args:
          dim: floats in a row.
          capacity: how many keys the table may hold. A limit, not an allocation: memory comes with
            the keys.
          name: appears in error messages, and is part of what first values depend on.
          initializer: Uniform, Normal, TruncatedNormal or Constant, or "uniform", "normal",
            "truncated_normal", "zeros" or "ones".
          seed: any int64.
          key_dtype: "int64", where every value is an ordinary key, or "uint32".
          num_threads: threads that share the work of a large call; None: as many as this process
            has processors. On a GPU it has no effect.
          device: "cpu", "cuda" (the first GPU) or "cuda:<number>".

        Raises:
          ValueError: for a number below 1, or a name that is not in the lists above.
          RuntimeError: if there is no such GPU, no CuPy, or this build has no CUDA back end.
          MemoryError: if the system refuses the address space for `capacity` rows.
        """
        initializer = parse_initializer(initializer)
        low_or_mean, high_or_stddev = (*vars(initializer).values(), 0.0)[:2]
        self._name = str(name)
        self._dim = _whole_number("dim", dim, 1)
        self._capacity = _whole_number("capacity", capacity, 1)
        self._key_dtype = parse_key_dtype(key_dtype)
        if num_threads is None:
            num_threads = len(os.sched_getaffinity(0))
        num_threads = _whole_number("num_threads", num_threads, 1, 1024)
        self._device = parse_device(device)
        options = _engine.table_options(
            name=self._name,
            dim=self._dim,
            capacity=self._capacity,
            kind=_KINDS[type(initializer)],
            low_or_mean=low_or_mean,
            high_or_stddev=high_or_stddev,
            seed=_whole_number("seed", seed, -(1 << 63)),
        )
        if self._device is None:
            self._table = NumpyTable(options, num_threads)
        else:
            self._table = CudaTable(options, self._device)

    @property
    def name(self) -> str:
        return self._name

    @property
    def dim(self) -> int:
        """Floats in a row."""
        return self._dim

    @property
    def capacity(self) -> int:
        """How many keys the table may hold."""
        return self._capacity

    @property
    def key_dtype(self) -> np.dtype:
        return self._key_dtype

    @property
    def device(self) -> str:
        """ "cpu" or "cuda:<number>"."""
        return "cpu" if self._device is None else f"cuda:{self._device}"

    @property
    def size(self) -> int:
        """How many keys the table holds; also `len(table)`."""
        return self._table.stored.size

    @property
    def index_bytes(self) -> int:
        """Bytes of memory of the keys and their row ids."""
        return self._table.stored.index_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of memory of the rows, those of erased keys that wait for new ones included."""
        return self._table.stored.row_bytes

    def __len__(self) -> int:
        return self.size

    def __contains__(self, key) -> bool:
        return bool(self.find([key])[0] >= 0)

    def __repr__(self) -> str:
        return (
            f"HashTable(dim={self.dim}, capacity={self.capacity}, name={self.name!r}, "
            f"key_dtype={str(self.key_dtype)!r}, size={self.size})"
        )

    def insert(self, keys, rows=None, *, stream=None) -> np.ndarray:
        """Makes the table hold all `keys`, and returns their row ids, int64 [number of keys].

        Keys that it already holds keep their rows. New ones get theirs from `rows` [number of keys,
        dim] (where a new key repeats, its first one), or the initializer's first value.

        Raises:
          CapacityError: if the new keys do not all fit; none of them is inserted then.
        """
        with self._table.on_stream(stream):
            keys = self._keys(keys)
            if rows is not None:
                rows = self._table.rows(rows, len(keys), self.dim, "rows")
            row_ids = self._table.empty(len(keys), np.int64)
            self._table.insert(keys, rows, row_ids)
        return row_ids

    def find(self, keys, *, stream=None) -> np.ndarray:
        """The row ids of `keys`, int64 [number of keys]; -1 for keys that are not held."""
        with self._table.on_stream(stream):
            keys = self._keys(keys)
            row_ids = self._table.empty(len(keys), np.int64)
            self._table.find(keys, row_ids)
        return row_ids

    def gather(self, keys, *, stream=None) -> np.ndarray:
        """The rows of `keys`, float32 [number of keys, dim].

        A key that the table does not hold gives its first value, and is not inserted.
        """
        with self._table.on_stream(stream):
            keys = self._keys(keys)
            rows = self._table.empty((len(keys), self.dim), np.float32)
            self._table.gather(keys, rows)
        return rows

    def scatter_add(self, keys, values, *, stream=None) -> None:
        """Adds values [number of keys, dim] to the rows of `keys`; repeated keys add up in order.

        Raises:
          KeyError: naming the first key that the table does not hold; no row is changed then.
        """
        self._update("scatter_add", keys, values, "values", stream)

    def assign(self, keys, rows, *, stream=None) -> None:
        """Replaces the rows of `keys` by rows [number of keys, dim]; a repeated key's last wins.

        Raises:
          KeyError: naming the first key that the table does not hold; no row is changed then.
        """
        self._update("assign", keys, rows, "rows", stream)

    def erase(self, keys, *, stream=None) -> int:
        """Forgets those of `keys` that the table holds, and returns how many they were.

        New keys may get their rows. A key that comes back starts with its first value again.
        """
        with self._table.on_stream(stream):
            return self._table.erase(self._keys(keys))

    def export(self, *, stream=None) -> tuple:
        """All keys [size], in the order of row ids, and their rows, float32 [size, dim]."""
        with self._table.on_stream(stream):
            keys, rows = self._table.export(self.dim)
            return keys.astype(self.key_dtype, copy=False), rows

    def clear(self, *, stream=None) -> None:
        """Forgets all keys and gives their memory back."""
        with self._table.on_stream(stream):
            self._table.clear()

    def _update(self, call, keys, rows, what, stream):
        with self._table.on_stream(stream):
            keys = self._keys(keys)
            rows = self._table.rows(rows, len(keys), self.dim, what)
            num_held = getattr(self._table, call)(keys, rows)
            if num_held < len(keys):
                raise KeyError(
                    f"table {self.name!r} does not hold the key {keys[num_held]} at position "
                    f"{num_held}; insert it before {call}"
                )

    def _keys(self, keys) -> np.ndarray:
        return self._table.keys(keys, self._key_dtype)


def _whole_number(what, value, low, high=(1 << 63) - 1) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be a whole number, got {value!r}") from None
    if not low <= number <= high:
        raise ValueError(f"{what} must be between {low} and {high}, got {number}")
    return number
