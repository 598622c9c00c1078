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
_TWO_BYTES = {"float16": "<f2", "bfloat16": "<u2"}  # what NumPy maps of them into memory
TWO_BYTES = tuple(_TWO_BYTES)


@dataclasses.dataclass(frozen=True)
class StoredArray:
    """An array in files.

    stored: name of the dtype in the files; TWO_BYTES are read as float32.
    files: [(path, place of the first byte, bytes)] of its parts, in the order of its rows; none is
      empty.
    verify: functions that read all parts, and raise if a checksum does not match.
    is_checked: whether all files have checksums.
    more: further parts after those in `files`, with `len`, and rows by slices and by arrays of
      places.
    """

    stored: str
    shape: tuple[int, ...]
    files: tuple[tuple[str, int, int], ...]
    verify: tuple[Callable[[], Any], ...]
    is_checked: bool = True
    more: tuple[Any, ...] = ()

    @property
    def dtype(self) -> np.dtype:
        """Of what is read."""
        name = "float32" if self.stored in _TWO_BYTES else self.stored
        return np.dtype(name).newbyteorder("<")

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in the files."""
        return self._mapped.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))

    @property
    def num_bytes(self) -> int:
        """Bytes of all rows."""
        further = sum(map(len, self.more)) * self.row_bytes
        return sum(num_bytes for _, _, num_bytes in self.files) + further

    @property
    def paths(self) -> list[str]:
        """Paths of its files, without repetition."""
        further = [path for part in self.more for path in getattr(part, "paths", ())]
        return list(dict.fromkeys([*(path for path, _, _ in self.files), *further]))

    def check(self) -> None:
        """Reads all rows.

        Raises:
          FileError: a file ends early, or its checksum does not match.
        """
        _ = self._parts

    def pieces(self, most_rows: int | None = None) -> Iterator[np.ndarray]:
        """Yields rows [n, ...] in order; raises as `check`."""
        most_rows = most_rows or max(1, PIECE_BYTES // max(1, self.row_bytes))
        for part in self._parts:
            for begin in range(0, len(part), most_rows):
                yield np.array(self._widened(part[begin : begin + most_rows]), self.dtype)

    def whole(self) -> np.ndarray:
        """All rows; raises as `check`."""
        return np.concatenate([np.empty((0, *self.shape[1:]), self.dtype), *self.pieces()])

    def take(self, places: np.ndarray) -> np.ndarray:
        """The rows at `places`, int64 [n], in any order; raises as `check`."""
        rows = np.empty((len(places), *self.shape[1:]), self.dtype)
        first = 0
        for part in self._parts:
            end = first + len(part)
            chosen = np.flatnonzero((first <= places) & (places < end))
            rows[chosen], first = self._widened(part[places[chosen] - first]), end
        return rows

    def _widened(self, rows):
        """Mapped rows, which NumPy can convert to `dtype`."""
        if self.stored == "bfloat16":  # the upper half of a float32
            return (np.array(rows, "<u4") << 16).view("<f4")
        return rows

    @property
    def _mapped(self):
        return np.dtype(_TWO_BYTES.get(self.stored, self.dtype))

    @functools.cached_property
    def _parts(self):
        """[a part's rows, mapped into memory], once all is verified."""
        with as_file_errors():
            for verify in self.verify:
                verify()
            mapped = [
                np.memmap(path, self._mapped, "r", first, (size // self.row_bytes, *self.shape[1:]))
                for path, first, size in self.files
            ]
        return [*mapped, *self.more]


def joined(arrays: Sequence[StoredArray]) -> StoredArray:
    """The concatenation of arrays.

    Raises:
      FileError: their dtypes or widths differ.
    """
    first = arrays[0]
    for array in arrays:
        if (array.stored, array.shape[1:]) != (first.stored, first.shape[1:]):
            raise FileError(
                f"parts of a table do not fit each other: {first.stored} {first.shape} in "
                f"{first.paths}, {array.stored} {array.shape} in {array.paths}"
            )
    num_rows = sum(array.shape[0] for array in arrays)
    files = tuple(file for array in arrays for file in array.files)
    verify = tuple(each for array in arrays for each in array.verify)
    are_checked = all(array.is_checked for array in arrays)
    return StoredArray(first.stored, (num_rows, *first.shape[1:]), files, verify, are_checked)


def together(arrays: Sequence[StoredArray], most_rows: int) -> Iterator[list[np.ndarray]]:
    """Yields [rows of each array], of arrays with the same number of rows, in order, at most
    `most_rows` at a time; raises as `pieces`."""
    iterators = [array.pieces(most_rows) for array in arrays]
    buffered = [np.zeros(0)] * len(arrays)
    while True:
        for number, rows in enumerate(buffered):
            if len(rows) == 0:
                buffered[number] = next(iterators[number], np.zeros(0))
        count = min(map(len, buffered))
        if count == 0:
            break
        yield [rows[:count] for rows in buffered]
        buffered = [rows[count:] for rows in buffered]
