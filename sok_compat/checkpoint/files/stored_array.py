# SPDX-License-Identifier: Apache-2.0
"""`StoredArray`: an array in files, read in pieces."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from sok_compat.checkpoint.files.file_error import FileError, as_file_errors

PIECE_BYTES = 4 << 20  # of files and rows that are processed at a time


@dataclasses.dataclass(frozen=True)
class StoredArray:
    """An array in files.

    files: [(path, how many bytes of the array it holds)], in the order of its rows.
    openers: make the readers of the engine's module for the array's parts.
    is_checked: whether all files have checksums.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    files: tuple[tuple[str, int], ...]
    openers: tuple[Callable[[], Any], ...]
    is_checked: bool = True

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))

    @property
    def num_bytes(self) -> int:
        """Bytes of all rows."""
        return sum(num_bytes for _, num_bytes in self.files)

    @property
    def paths(self) -> list[str]:
        """Paths of its files, without repetition."""
        return list(dict.fromkeys(path for path, _ in self.files))

    def pieces(self, most_rows: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (index of the first row, rows [n, ...]) in order.

        Raises:
          FileError: a file ends early or, with the last rows, its checksum does not match.
        """
        most_rows = most_rows or max(1, PIECE_BYTES // max(1, self.row_bytes))
        most_rows = max(1, min(most_rows, self.shape[0] if self.shape else 1))
        first = 0
        for make in self.openers:
            with as_file_errors():
                reader = make()
            while True:
                rows = np.empty((most_rows, *self.shape[1:]), self.dtype)
                with as_file_errors():
                    count = reader.read(most_rows, rows.ctypes.data)
                if count == 0:
                    break
                yield first, rows[:count]
                first += count

    def check(self) -> None:
        """Reads all rows; raises as `pieces`."""
        for _ in self.pieces():
            pass

    def take(self, places: np.ndarray) -> np.ndarray:
        """The rows at `places`, int64 [n], in any order, without checking checksums."""
        rows = np.empty((len(places), *self.shape[1:]), self.dtype)
        first = 0
        for reader in self._readers_of_places:
            with as_file_errors():
                end = first + reader.num_rows
                chosen = np.flatnonzero((first <= places) & (places < end))
                wanted = places[chosen].astype(np.int64) - first
                part = np.empty((len(chosen), *self.shape[1:]), self.dtype)
                reader.take(len(wanted), wanted.ctypes.data, part.ctypes.data)
            rows[chosen], first = part, end
        return rows

    @functools.cached_property
    def _readers_of_places(self):
        with as_file_errors():
            return [make() for make in self.openers]


def joined(arrays: Sequence[StoredArray]) -> StoredArray:
    """The concatenation of arrays.

    Raises:
      FileError: their dtypes or widths differ.
    """
    first = arrays[0]
    for array in arrays:
        if (array.dtype, array.shape[1:]) != (first.dtype, first.shape[1:]):
            raise FileError(
                f"parts of a table do not fit each other: {first.dtype.name} {first.shape} in "
                f"{first.paths}, {array.dtype.name} {array.shape} in {array.paths}"
            )
    num_rows = sum(array.shape[0] for array in arrays)
    files = tuple(file for array in arrays for file in array.files)
    openers = tuple(opener for array in arrays for opener in array.openers)
    are_checked = all(array.is_checked for array in arrays)
    return StoredArray(first.dtype, (num_rows, *first.shape[1:]), files, openers, are_checked)


def together(arrays: Sequence[StoredArray], most_rows: int) -> Iterator[list[np.ndarray]]:
    """Yields [rows of each array] in order, at most `most_rows` at a time; raises as `pieces`.

    Args:
      arrays: arrays with the same number of rows.
      most_rows: rows of each array.
    """
    iterators = [array.pieces(most_rows) for array in arrays]
    buffered = [np.zeros(0)] * len(arrays)
    while True:  # reads past the last piece, which checks the checksums
        for number, rows in enumerate(buffered):
            if len(rows) == 0:
                buffered[number] = next(iterators[number], (0, np.zeros(0)))[1]
        count = min(map(len, buffered))
        if count == 0:
            break
        yield [rows[:count] for rows in buffered]
        buffered = [rows[count:] for rows in buffered]
