# SPDX-License-Identifier: Apache-2.0
"""Finds and reads dumps: the pair of files that sok.Saver writes of a table, and their note."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import math
import os
import re
from collections.abc import Iterator

import numpy as np

from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.stored_array import Extent, StoredArray

ID_DIGITS = 24
_NOTE = re.compile(
    r"sok_compat-dump-1\nid ([0-9a-f]{24})\nkeys (\d+) of ([48]) bytes, CRC-32C (\d+)\n"
    r"rows of ([1-9]\d*) float32, CRC-32C (\d+)\nend\n"
)
KEY_DTYPES: dict[str, np.dtype] = {"int64": np.dtype("<i8"), "uint32": np.dtype("<u4")}


@dataclasses.dataclass(frozen=True)
class DumpNote:
    """Description of a dump's two files; see ops/tf/checkpoint/dump/dump_note.h."""

    id: str
    num_keys: int
    key_bytes: int
    keys_sum: int
    dim: int
    rows_sum: int

    def to_text(self) -> str:
        """The content of the note's file."""
        return (
            f"sok_compat-dump-1\nid {self.id}\nkeys {self.num_keys} of {self.key_bytes} bytes, "
            f"CRC-32C {self.keys_sum}\nrows of {self.dim} float32, CRC-32C {self.rows_sum}\nend\n"
        )

    @classmethod
    def read(cls, path: str) -> DumpNote | None:
        """The note in a file; None if there is no such file.

        Raises:
          FileError: the file is not a note.
        """
        match = match_note(path, _NOTE)
        return match and cls(match[1], *map(int, match.groups()[1:]))


def match_note(path: str, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """The match of the note in a file; None if there is no such file.

    Raises:
      FileError: the file does not match.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            match = pattern.fullmatch(file.read())
    except FileNotFoundError:
        return None
    if match is None:
        raise FileError(
            f"{path} is not what a dump has written; remove it to read the files beside it as they "
            "are"
        )
    return match


@dataclasses.dataclass(frozen=True)
class DumpPlaces:
    """Paths of the files of a table's dump."""

    folder: str
    name: str  # of the table; may contain folders

    @property
    def keys(self) -> str:
        """Path of the keys."""
        return os.path.join(self.folder, f"{self.name}_keys.file")

    @property
    def rows(self) -> str:
        """Path of the rows."""
        return os.path.join(self.folder, f"{self.name}_values.file")

    @property
    def note(self) -> str:
        """Path of the note."""
        return os.path.join(self.folder, f"{self.name}.dump")


def dumped_tables(folder: str) -> list[str]:
    """Sorted names of the tables with a dump in a folder or below it."""
    names = set()
    for parent, _, files in os.walk(folder):
        for file in files:
            for suffix in ("_keys.file", "_values.file", ".dump"):
                if file.endswith(suffix) and file != suffix:
                    path = os.path.join(parent, file[: -len(suffix)])
                    names.add(os.path.relpath(path, folder))
    return sorted(names)


def open_dump(places: DumpPlaces, key_dtype: str = "int64") -> tuple[StoredArray, StoredArray]:
    """Opens a dump.

    Args:
      places: paths of its files.
      key_dtype: 'int64' or 'uint32', used if there is no note.

    Returns:
      (keys [n], rows [n, dim]).

    Raises:
      FileError: a file is missing or has the wrong size.
    """
    with folder_lock(os.path.dirname(places.keys) or ".", fcntl.LOCK_SH):
        note = DumpNote.read(places.note)
        paths = [_path_now(place, note) for place in (places.keys, places.rows)]
        sizes = [_size_of(path) for path in paths]
    if note is None:
        dtype = KEY_DTYPES[key_dtype]
        num_keys, dim = _measured(paths, sizes, dtype)
        sums: tuple[int | None, int | None] = (None, None)
    else:
        dtype = KEY_DTYPES["int64" if note.key_bytes == 8 else "uint32"]
        num_keys, dim, sums = note.num_keys, note.dim, (note.keys_sum, note.rows_sum)
    kinds: tuple[np.dtype, np.dtype] = (dtype, np.dtype("<f4"))
    shapes = ((num_keys,), (num_keys, dim))
    arrays = []
    for path, size, kind, shape, checksum in zip(paths, sizes, kinds, shapes, sums):
        expected = math.prod(shape) * kind.itemsize
        if size != expected:
            raise FileError(
                f"{path} is not as it was written: it has {size} bytes, and {places.note} says "
                f"{expected}"
            )
        extent = Extent(path, 0, size, checksum, "the file")
        arrays.append(StoredArray(kind, shape, (extent,) if size else ()))
    keys, rows = arrays
    return keys, rows


@contextlib.contextmanager
def folder_lock(folder: str, mode: int) -> Iterator[None]:
    """Locks a folder as dumps do, while this is open; no-op if the file system has no locks."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # using the folder reports why
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, mode)
        yield
    finally:
        os.close(descriptor)


def until(place: str, dump_id: str) -> str:
    """Path of a file until its dump is complete; it stays there if the process dies before."""
    return f"{place}.{dump_id}"


def _path_now(place, note):
    if note is not None and os.path.exists(until(place, note.id)):
        return until(place, note.id)
    return place


def _size_of(path):
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        raise FileError(f"{path} is missing, one of the two files of a dump") from None


def _measured(paths, sizes, dtype):
    num_keys = sizes[0] // dtype.itemsize
    dim = sizes[1] // (4 * num_keys) if num_keys else 1
    if sizes != [num_keys * dtype.itemsize, num_keys * dim * 4] or (num_keys and dim < 1):
        raise FileError(
            f"{paths[0]} has {sizes[0]} bytes and {paths[1]} has {sizes[1]}: not a row of float32 "
            f"for each key of {dtype.itemsize} bytes; no note beside them says what they are "
            "(--key-dtype uint32 takes keys of 4 bytes)"
        )
    return num_keys, dim
