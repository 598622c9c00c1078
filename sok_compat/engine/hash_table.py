# SPDX-License-Identifier: Apache-2.0
"""HashTable: integer keys -> rows of float32 that grow with the keys, on NumPy or CuPy arrays."""

from __future__ import annotations

import operator
import os
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from sok_compat.engine import _engine
from sok_compat.engine.arrays import parse_key_dtype
from sok_compat.engine.cupy_arrays import CupyArrays
from sok_compat.engine.initializers import Initializer, parse_initializer
from sok_compat.engine.numpy_arrays import NumpyArrays

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class HashTable:
    """A table of rows, each `dim` float32, by integer key. Added by sok_compat.

    A key gets the next free row id (0, 1, 2, ...) when it is inserted and keeps it until it is
    erased. The first value of its row depends on `seed`, `name` and the key only, not on the order
    in which keys come.

    Keys are one-dimensional arrays or sequences of integers and may repeat. All methods are
    thread-safe, and a call that raises leaves the table as it was.

    A child of `os.fork` has its own copy, whose calls run on the caller's thread alone; tables made
    there have threads. If another thread was in a call of the table during the fork, calls of the
    copy raise RuntimeError.

    With device="cuda:0" keys and rows are in the memory of that GPU. Methods also take arrays on it
    (CuPy's, or any with __cuda_array_interface__ or DLPack), and return CuPy arrays. Calls run on
    CuPy's current stream, or on `stream` (CuPy's, any object with __cuda_stream__, or a handle);
    they take effect in the order of the calls, even on different streams. `find`, `gather` and,
    unless the table has to grow, `insert` return before they have run; the others wait.

    Examples:
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
        initializer: Initializer | str = "uniform",
        seed: int = 0,
        key_dtype: str | type | np.dtype = "int64",
        num_threads: int | None = None,
        device: str = "cpu",
    ) -> None:
        """Makes an empty table.

        Args:
          dim: floats in a row.
          capacity: most keys that the table may hold: a limit, not an allocation. Memory grows with
            the keys.
          name: for error messages; first values depend on it.
          initializer: Uniform, Normal, TruncatedNormal or Constant, or "uniform", "normal",
            "truncated_normal", "zeros" or "ones".
          seed: any int64.
          key_dtype: "int64", where every value is an ordinary key, or "uint32".
          num_threads: threads that share the work of a large call; None: one for each processor of
            this process. It has no effect on a GPU.
          device: "cpu", "cuda" (the first GPU) or "cuda:<number>".

        Raises:
          ValueError: a number is below 1, or a name is not in the lists above.
          RuntimeError: the GPU, CuPy or this build's CUDA back end is missing.
          MemoryError: the system refuses the address space for `capacity` rows.
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
        self._gpu = _parse_device(device)
        self._arrays = NumpyArrays() if self._gpu is None else _arrays_on_gpu(self._gpu)
        options = _engine.table_options(
            name=self._name,
            dim=self._dim,
            capacity=self._capacity,
            kind=initializer.kind,
            low_or_mean=low_or_mean,
            high_or_stddev=high_or_stddev,
            seed=_whole_number("seed", seed, -(1 << 63)),
        )
        gpu = -1 if self._gpu is None else self._gpu
        self._stored = _engine.StoredTable(options, gpu, num_threads)

    @property
    def name(self) -> str:
        """The table's name."""
        return self._name

    @property
    def dim(self) -> int:
        """Floats in a row."""
        return self._dim

    @property
    def capacity(self) -> int:
        """Most keys that the table may hold."""
        return self._capacity

    @property
    def key_dtype(self) -> np.dtype:
        """int64 or uint32."""
        return self._key_dtype

    @property
    def device(self) -> str:
        """ "cpu" or "cuda:<number>"."""
        return "cpu" if self._gpu is None else f"cuda:{self._gpu}"

    @property
    def size(self) -> int:
        """Number of keys in the table; also `len(table)`."""
        return self._stored.size

    @property
    def index_bytes(self) -> int:
        """Bytes of memory for the keys and their row ids."""
        return self._stored.index_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of memory for the rows, including free rows of erased keys."""
        return self._stored.row_bytes

    def __len__(self) -> int:
        return self.size

    def __contains__(self, key: Any) -> bool:
        return bool(self.find([key])[0] >= 0)

    def __repr__(self) -> str:
        return (
            f"HashTable(dim={self.dim}, capacity={self.capacity}, name={self.name!r}, "
            f"key_dtype={str(self.key_dtype)!r}, size={self.size})"
        )

    def insert(
        self, keys: ArrayLike, rows: ArrayLike | None = None, *, stream: Any = None
    ) -> np.ndarray:
        """Inserts the new ones of `keys`, and returns all row ids, int64 [number of keys].

        Keys in the table keep their rows. New keys get theirs from `rows` [number of keys, dim] (a
        repeated key its first one), or else their first value.

        Raises:
          CapacityError: the new keys do not all fit; none of them is inserted.
        """
        with self._arrays.on_stream(stream):
            keys = self._keys(keys)
            if rows is not None:
                rows = self._arrays.rows(rows, len(keys), self.dim, "rows")
            row_ids = self._arrays.empty(len(keys), np.int64)
            self._call("insert", len(keys), keys, rows, row_ids)
        return row_ids

    def find(self, keys: ArrayLike, *, stream: Any = None) -> np.ndarray:
        """Returns the row ids of `keys`, int64 [number of keys]; -1 for keys not in the table."""
        with self._arrays.on_stream(stream):
            keys = self._keys(keys)
            row_ids = self._arrays.empty(len(keys), np.int64)
            self._call("find", len(keys), keys, row_ids)
        return row_ids

    def gather(self, keys: ArrayLike, *, stream: Any = None) -> np.ndarray:
        """Returns the rows of `keys`, float32 [number of keys, dim].

        A key that is not in the table reads its first value, and is not inserted.
        """
        with self._arrays.on_stream(stream):
            keys = self._keys(keys)
            rows = self._arrays.empty((len(keys), self.dim), np.float32)
            self._call("gather", len(keys), keys, rows)
        return rows

    def scatter_add(self, keys: ArrayLike, values: ArrayLike, *, stream: Any = None) -> None:
        """Adds values [number of keys, dim] to the rows of `keys`; repeated keys add up in order.

        Raises:
          KeyError: a key is not in the table; no row is changed.
        """
        self._update("scatter_add", keys, values, "values", stream)

    def assign(self, keys: ArrayLike, rows: ArrayLike, *, stream: Any = None) -> None:
        """Replaces the rows of `keys` by rows [number of keys, dim]; the last repeated key wins.

        Raises:
          KeyError: a key is not in the table; no row is changed.
        """
        self._update("assign", keys, rows, "rows", stream)

    def erase(self, keys: ArrayLike, *, stream: Any = None) -> int:
        """Erases `keys`, and returns the number of those that were in the table.

        New keys may reuse their rows. A key that is inserted again starts with its first value.
        """
        with self._arrays.on_stream(stream):
            keys = self._keys(keys)
            return self._call("erase", len(keys), keys)

    def export(self, *, stream: Any = None) -> tuple:
        """Returns all keys [size], in the order of row ids, and their rows, float32 [size, dim]."""
        with self._arrays.on_stream(stream):
            capacity, num_keys = -1, self.size
            while num_keys > capacity:  # first, and after inserts of other threads
                capacity = num_keys
                keys = self._arrays.empty(capacity, np.int64)
                rows = self._arrays.empty((capacity, self.dim), np.float32)
                num_keys = self._call("export", capacity, keys, rows)
            # Another thread may also have erased some.
            return keys[:num_keys].astype(self.key_dtype, copy=False), rows[:num_keys]

    def clear(self, *, stream: Any = None) -> None:
        """Erases all keys and frees their memory."""
        with self._arrays.on_stream(stream):
            self._call("clear")

    def _update(self, call: str, keys: ArrayLike, rows: ArrayLike, what: str, stream: Any) -> None:
        with self._arrays.on_stream(stream):
            keys = self._keys(keys)
            rows = self._arrays.rows(rows, len(keys), self.dim, what)
            num_found = self._call(call, len(keys), keys, rows)
            if num_found < len(keys):
                raise KeyError(
                    f"table {self.name!r} does not hold the key {keys[num_found]} at position "
                    f"{num_found}; insert it before {call}"
                )

    def _keys(self, keys: ArrayLike) -> np.ndarray:
        return self._arrays.keys(keys, self._key_dtype)

    def _call(self, name: str, *arguments: Any) -> Any:
        """Calls the C++ table on the current stream, with the addresses of arrays (0 for None)."""
        addresses = [
            argument if isinstance(argument, int) else self._address(argument)
            for argument in arguments
        ]
        return getattr(self._stored, name)(self._arrays.current_stream(), *addresses)

    def _address(self, array: Any) -> int:
        return 0 if array is None else self._arrays.address(array)


def _parse_device(device: str) -> int | None:
    """Returns None for "cpu", the GPU's number for "cuda" or "cuda:<number>"."""
    match = re.fullmatch(r"cpu|cuda(?::(\d+))?", device) if isinstance(device, str) else None
    if not match:
        raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:<number>', got {device!r}")
    return None if device == "cpu" else int(match[1] or 0)


def _arrays_on_gpu(number: int) -> CupyArrays:
    if not _engine.HAS_CUDA:
        raise RuntimeError(
            f"device='cuda:{number}': this build of sok_compat has no CUDA back end, because "
            f"{_engine.WHY_NO_CUDA}. Build it where CMake finds a CUDA compiler: "
            "CUDACXX=.../nvcc pip install . -Ccmake.define.SOK_CUDA=ON"
        )
    return CupyArrays(number)


def _whole_number(what: str, value: Any, low: int, high: int = (1 << 63) - 1) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be a whole number, got {value!r}") from None
    if not low <= number <= high:
        raise ValueError(f"{what} must be between {low} and {high}, got {number}")
    return number
