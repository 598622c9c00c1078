# SPDX-License-Identifier: Apache-2.0
"""`StoredArray`: numbers that stand in files, read in pieces."""

import dataclasses
import functools
import os
from typing import Optional

import numpy as np

from sok_compat.checkpoint.files.checksums import crc32c
from sok_compat.checkpoint.files.file_error import FileError, naming

PIECE_BYTES = 4 << 20  # of files and rows, that are worked on at a time


@dataclasses.dataclass(frozen=True)
class Extent:
    """Bytes of one file that stand one after the other, and are checked together."""

    path: str
    offset: int
    num_bytes: int
    checksum: Optional[int]  # CRC-32C; None: there is none
    what: str  # for messages

    def pieces(self, piece_bytes=PIECE_BYTES):
        """Yields the bytes, at most `piece_bytes` at a time.

        Raises:
          FileError: the file ends early, or, after the last piece, the checksum is another.
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
                        f"{self.what}, of which it has to hold {self.offset + self.num_bytes}"
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
    """An array of which each Extent holds whole rows, one after the other."""

    dtype: np.dtype
    shape: tuple
    extents: tuple

    @property
    def row_bytes(self):
        return self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))

    @property
    def num_bytes(self):
        return sum(extent.num_bytes for extent in self.extents)

    @property
    def is_checked(self):
        """Whether all of it has a checksum."""
        return all(extent.checksum is not None for extent in self.extents)

    @property
    def paths(self):
        """The files in which it stands, each once."""
        return list(dict.fromkeys(extent.path for extent in self.extents))

    def pieces(self, most_rows=None):
        """Yields (first, rows [n, ...]) from the first row to the last; errors as of Extent."""
        most_rows = most_rows or max(1, PIECE_BYTES // max(1, self.row_bytes))
        first = 0
        for extent in self.extents:
            for piece in extent.pieces(most_rows * max(1, self.row_bytes)):
                rows = np.frombuffer(piece, self.dtype).reshape(-1, *self.shape[1:])
                yield first, rows
                first += len(rows)

    def check(self):
        """Reads it all; raises as `pieces`."""
        for _ in self.pieces():
            pass

    def take(self, places):
        """The rows at `places`, int64 [n], in any order; checksums are not looked at."""
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
        """Of each extent with rows, its first one."""
        counts = [extent.num_bytes // max(1, self.row_bytes) for extent in self.extents]
        return np.cumsum([0, *counts[:-1]], dtype=np.int64)


def joined(arrays):
    """One array after the other as one.

    Raises:
      FileError: they are of different dtypes or widths.
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


def together(arrays, most_rows):
    """Yields [rows of each], from the same places in all, in order, at most `most_rows` at a time;
    of arrays with as many rows. Errors as of Extent."""
    iterators = [array.pieces(most_rows) for array in arrays]
    held = [()] * len(arrays)
    while True:  # once more than there is to give: then the checksums are known
        for number, rows in enumerate(held):
            if len(rows) == 0:
                held[number] = next(iterators[number], (0, ()))[1]
        count = min(map(len, held))
        if count == 0:
            break
        yield [rows[:count] for rows in held]
        held = [rows[count:] for rows in held]


def _mapped(path):
    return _mapped_as_it_is(path, os.stat(path).st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _mapped_as_it_is(path, written_at):
    del written_at  # for the cache
    return np.memmap(path, np.uint8, "r")
