# SPDX-License-Identifier: Apache-2.0
"""Rows that DeepRec has saved as records: those of a table with an SSD that were not in memory.

Beside the checkpoint, `<prefix>-<table, with '_' for '/'>-ssd_record` is a bundle with the file and
the place of each key's record, and the folder `...-emb_files` holds the files. A record is the
table's row and those of its slots, each padded to 16 bytes unless EV_DATA_ALIGNED was false, with
16 bytes of counts: releases up to 2302 write (step, frequency) before them, later ones (frequency,
step) after them, of which either may be missing.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sok_compat.checkpoint.files.bundle import Bundle
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.stored_array import StoredArray

_ALIGNED = 16  # bytes
_COUNTS = 16
_STEP = (1 << 48) - 1  # above it are flags: which of the planes have values


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where a column stands in a record."""

    first_byte: int
    dtype: np.dtype
    width: int = 0  # 0: one number


@dataclasses.dataclass(frozen=True)
class RecordColumn:
    """A column of records, [n] or [n, width]: a part of a StoredArray."""

    records: EmbRecords
    place: _Place

    @property
    def paths(self) -> list[str]:
        """Of the files."""
        return [self.records.paths[number] for number in np.unique(self.records.file_of)]

    def __len__(self) -> int:
        """n."""
        return len(self.records.keys)

    def __getitem__(self, which: Any) -> np.ndarray:
        """Reads the rows of a slice, or at places."""
        file_of, first = self.records.file_of[which], self.records.first_byte[which]
        num_bytes = self.place.dtype.itemsize * max(1, self.place.width)
        taken = np.empty((len(first), num_bytes), np.uint8)
        for number in np.unique(file_of):
            chosen = np.flatnonzero(file_of == number)
            file = np.memmap(self.records.paths[number], np.uint8, "r")
            begin = first[chosen, None] + self.place.first_byte
            taken[chosen] = file[begin + np.arange(num_bytes)]
        rows = taken.view(self.place.dtype)
        return rows if self.place.width else rows[:, 0]


class EmbRecords:
    """The records of a table, or of one of its parts.

    Attributes:
      keys: int64 [n], of those that are not `in_memory`, whose rows are newer.
      paths: of the files.
      file_of, first_byte: int64 [n]: the path of each key's record, and where it begins there.
    """

    def __init__(self, stem: str, in_memory: np.ndarray) -> None:
        """Opens them.

        Args:
          stem: of the paths, without `-ssd_record`.
          in_memory: keys [m] whose rows are in the checkpoint itself.

        Raises:
          FileError: a tensor or file is missing or damaged.
        """
        bundle = Bundle(f"{stem}-ssd_record")
        keys, files, places, numbers, counts = (
            _all_of(bundle, name)
            for name in ("keys", "keys_file_id", "keys_offset", "files", "record_count")
        )
        self._stem = stem
        self.paths = [os.path.join(f"{stem}-emb_files", f"{number}.emb") for number in numbers]
        self._sizes = [_size_of(path) for path in self.paths]
        self._counts = counts
        kept = np.flatnonzero(~np.isin(keys, in_memory))
        order = np.argsort(numbers)
        at = np.searchsorted(numbers[order], files[kept])
        if np.any(at >= len(numbers)) or np.any(numbers[order][at] != files[kept]):
            raise FileError(f"{bundle.prefix}: keys_file_id has a file that `files` lacks")
        self.keys, self.file_of, self.first_byte = keys[kept], order[at], places[kept]

    def columns(
        self, widths: Sequence[int], counts: Sequence[str]
    ) -> tuple[list[RecordColumn], Mapping[str, RecordColumn]]:
        """Returns (the columns of the row and of each slot, {name: column} of the counts).

        Args:
          widths: floats of the row, then of each slot.
          counts: 'freqs', 'versions'.

        Raises:
          FileError: records have another size, or lack the counts.
        """
        record_bytes = self._record_bytes()
        fits = []  # (whether it has other counts than the table, their number, sizes)
        for aligned in (_ALIGNED, 4):
            sizes = [-(-4 * width // aligned) * aligned for width in widths]
            num_counts, rest = divmod(record_bytes - sum(sizes), 8)
            if rest == 0 and num_counts in (0, 1, 2):
                fits.append((num_counts not in (len(counts), 2), num_counts, sizes))
        if not fits:
            raise FileError(
                f"{self._stem}-emb_files: records have {record_bytes} bytes, which do not fit rows "
                f"and slots of {widths} floats"
            )
        _, num_counts, sizes = min(fits, key=lambda fit: fit[0])  # the first of equals: padded
        if counts and num_counts != 2:
            raise FileError(f"{self._stem}-emb_files: records lack {' or '.join(counts)}")
        counts_first = num_counts == 2 and self._counts_come_first()
        begins = np.cumsum([_COUNTS if counts_first else 0, *sizes])
        limit = np.array([*self._sizes, 0])[self.file_of] - record_bytes
        if np.any(self.first_byte < 0) or np.any(self.first_byte > limit):
            raise FileError(f"{self._stem}-emb_files: a file ends before its last record")
        rows = [
            RecordColumn(self, _Place(int(begin), np.dtype("<f4"), width))
            for begin, width in zip(begins, widths)
        ]
        at = {"versions": 0, "freqs": 8} if counts_first else {
            "freqs": int(begins[-1]), "versions": int(begins[-1]) + 8
        }  # fmt: skip
        number = np.dtype("<i8")
        return rows, {name: _Count(self, _Place(at[name], number)) for name in counts}

    def _record_bytes(self):
        sizes = {
            size // count if size % count == 0 else -1
            for size, count in zip(self._sizes, self._counts.tolist())
            if count > 0
        }
        if len(sizes) != 1 or min(sizes) <= 0:
            raise FileError(f"{self._stem}-emb_files: files do not have the records of ssd_record")
        return sizes.pop()

    def _counts_come_first(self):
        """Whether the first 8 bytes of all records are a step, with its flags above: the row has a
        value, and fewer than 8 planes."""
        first = RecordColumn(self, _Place(0, np.dtype("<u8")))
        sample = first[: 1 << 16]
        flags = sample >> np.uint64(48)
        return bool(np.all((flags & np.uint64(1)) == 1) and np.all(flags < 256))


class _Count(RecordColumn):
    """A step or frequency."""

    def __getitem__(self, which: Any) -> np.ndarray:
        found = super().__getitem__(which)
        return found & _STEP if self.place.first_byte == 0 else found


def stem_of_records(prefix: str, table_name: str) -> str | None:
    """The stem of a table's records beside a checkpoint; None if there are none."""
    stem = f"{prefix}-{table_name.replace('/', '_')}"
    return stem if os.path.exists(f"{stem}-ssd_record.index") else None


def with_columns(array: StoredArray, columns: Sequence[Any]) -> StoredArray:
    """The rows of an array, and then those of columns, which have no checksums."""
    num_rows = array.shape[0] + sum(map(len, columns))
    return dataclasses.replace(
        array, shape=(num_rows, *array.shape[1:]), more=(*array.more, *columns), is_checked=False
    )


def _all_of(bundle, name):
    if name not in bundle.tensors:
        raise FileError(f"{bundle.prefix} lacks the tensor {name}")
    array = bundle.array(name)
    return array.take(np.arange(array.shape[0])).astype(np.int64)


def _size_of(path):
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error
