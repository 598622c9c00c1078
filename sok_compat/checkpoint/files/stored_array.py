# SPDX-License-Identifier: Apache-2.0
"""`StoredArray`: an array in files, read in pieces."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterator, Sequence

import numpy as np

from sok_compat.checkpoint.files.checksums import crc32c
from sok_compat.checkpoint.files.file_error import FileError, naming

PIECE_BYTES = 4 << 20  # of files and rows that are processed at a time


@dataclasses.dataclass(frozen=True)
class Extent:
    """Contiguous bytes of one file, with one checksum."""

    path: str
    offset: int
    num_bytes: int
    checksum: int | None  # CRC-32C, if there is one
    what: str  # for messages

    def pieces(self, piece_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
        """Yields the bytes, at most `piece_bytes` at a time.

        Raises:
          FileError: the file ends early or, after the last piece, the checksum does not match.
        """
        checksum = 0
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            for first in range(0, self.num_bytes, piece_bytes):
                count = min(piece_bytes, self.num_bytes - first)
                with naming(self.path):
                    piece = file.read(count)
                if len(piece) < count:
                    raise FileError(
                        f"{self.path} ends after {self.offset + first + len(piece)} bytes, within "
                        f"{self.what}: it must have {self.offset + self.num_bytes}"
                    )
                if self.checksum is not None:
                    checksum = crc32c(piece, checksum)
                yield piece
        if self.checksum not in (None, checksum):
            raise FileError(
                f"{self.path} is not as it was written: the CRC-32C of {self.what}, "
                f"{self.num_bytes} bytes from {self.offset} on, is {checksum}, and "
                f"{self.checksum} was stored"
            )


@dataclasses.dataclass(frozen=True)
class StoredArray:
    """An array in files; each Extent holds some of its rows, in order."""

    dtype: np.dtype
    shape: tuple[int, ...]
    extents: tuple[Extent, ...]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))

    @property
    def num_bytes(self) -> int:
        """Bytes of all rows."""
        return sum(extent.num_bytes for extent in self.extents)

    @property
    def is_checked(self) -> bool:
        """Whether all extents have checksums."""
        return all(extent.checksum is not None for extent in self.extents)

    @property
    def paths(self) -> list[str]:
        """Paths of its files, without repetition."""
        return list(dict.fromkeys(extent.path for extent in self.extents))

    def pieces(self, most_rows: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (index of the first row, rows [n, ...]) in order; raises as Extent.pieces."""
        most_rows = most_rows or max(1, PIECE_BYTES // max(1, self.row_bytes))
        first = 0
        for extent in self.extents:
            for piece in extent.pieces(most_rows * max(1, self.row_bytes)):
                rows = np.frombuffer(piece, self.dtype).reshape(-1, *self.shape[1:])
                yield first, rows
                first += len(rows)

    def check(self) -> None:
        """Reads all rows; raises as `pieces`."""
        for _ in self.pieces():
            pass

    def take(self, places: np.ndarray) -> np.ndarray:
        """The rows at `places`, int64 [n], in any order, without checking checksums."""
        rows = np.empty((len(places), *self.shape[1:]), self.dtype)
        of_extents = np.searchsorted(self._firsts, places, side="right") - 1
        for number in np.unique(of_extents).tolist():
            extent, chosen = self.extents[number], of_extents == number
            mapped = _mapped(extent.path)[extent.offset : extent.offset + extent.num_bytes]
            if mapped.size < extent.num_bytes:
                raise FileError(f"{extent.path} ends within {extent.what}")
            stored = mapped.view(self.dtype).reshape(-1, *self.shape[1:])
            rows[chosen] = stored[places[chosen] - self._firsts[number]]
        return rows

    @functools.cached_property
    def _firsts(self):
        """Index of the first row of each extent."""
        counts = [extent.num_bytes // max(1, self.row_bytes) for extent in self.extents]
        return np.cumsum([0, *counts[:-1]], dtype=np.int64)


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
    extents = tuple(extent for array in arrays for extent in array.extents if extent.num_bytes)
    return StoredArray(first.dtype, (num_rows, *first.shape[1:]), extents)


def together(arrays: Sequence[StoredArray], most_rows: int) -> Iterator[list[np.ndarray]]:
    """Yields [rows of each array] in order, at most `most_rows` at a time; raises as Extent.pieces.

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


def _mapped(path):
    return _mapped_as_it_is(path, os.stat(path).st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _mapped_as_it_is(path, written_at):
    del written_at  # for the cache
    return np.memmap(path, np.uint8, "r")
