# SPDX-License-Identifier: Apache-2.0
"""The pair of files that sok.Saver dumps a table to, and the note beside it: found and read."""

import contextlib
import dataclasses
import fcntl
import os
import re

import numpy as np

from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.stored_array import Extent, StoredArray

ID_DIGITS = 24
_NOTE = re.compile(
    r"sok_compat-dump-1\nid ([0-9a-f]{24})\nkeys (\d+) of ([48]) bytes, CRC-32C (\d+)\n"
    r"rows of ([1-9]\d*) float32, CRC-32C (\d+)\nend\n"
)
KEY_DTYPES = {"int64": np.dtype("<i8"), "uint32": np.dtype("<u4")}


@dataclasses.dataclass(frozen=True)
class DumpNote:
    """What the two files are; ops/tf/dump_note.h."""

    id: str
    num_keys: int
    key_bytes: int
    keys_sum: int
    dim: int
    rows_sum: int

    def to_text(self):
        return (
            f"sok_compat-dump-1\nid {self.id}\nkeys {self.num_keys} of {self.key_bytes} bytes, "
            f"CRC-32C {self.keys_sum}\nrows of {self.dim} float32, CRC-32C {self.rows_sum}\nend\n"
        )

    @classmethod
    def read(cls, path):
        """None where there is no such file.

        Raises:
          FileError: it is another text.
        """
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                match = _NOTE.fullmatch(file.read())
        except FileNotFoundError:
            return None
        if match is None:
            raise FileError(
                f"{path} is not what a dump has written; remove it to read the files beside it as "
                "they are"
            )
        return cls(match[1], *map(int, match.groups()[1:]))


@dataclasses.dataclass(frozen=True)
class DumpPlaces:
    """Where the files of a table's dump are."""

    folder: str
    name: str  # of the table; may have folders

    @property
    def keys(self):
        return os.path.join(self.folder, f"{self.name}_keys.file")

    @property
    def rows(self):
        return os.path.join(self.folder, f"{self.name}_values.file")

    @property
    def note(self):
        return os.path.join(self.folder, f"{self.name}.dump")


def dumped_tables(folder):
    """Names of the tables of which a folder, with those in it, has a dump, sorted."""
    names = set()
    for parent, _, files in os.walk(folder):
        for file in files:
            for suffix in ("_keys.file", "_values.file", ".dump"):
                if file.endswith(suffix) and file != suffix:
                    path = os.path.join(parent, file[: -len(suffix)])
                    names.add(os.path.relpath(path, folder))
    return sorted(names)


def open_dump(places, key_dtype="int64"):
    """(keys StoredArray [n], rows StoredArray [n, dim]) of a dump.

    Args:
      places: DumpPlaces.
      key_dtype: 'int64' or 'uint32'; looked at where no note says it.

    Raises:
      FileError: a file is missing, or of another size.
    """
    with folder_lock(os.path.dirname(places.keys) or ".", fcntl.LOCK_SH):
        note = DumpNote.read(places.note)
        paths = [_path_now(place, note) for place in (places.keys, places.rows)]
        sizes = [_size_of(path) for path in paths]
    if note is None:
        dtype = KEY_DTYPES[key_dtype]
        num_keys, dim = _measured(paths, sizes, dtype)
        sums = (None, None)
    else:
        dtype = KEY_DTYPES["int64" if note.key_bytes == 8 else "uint32"]
        num_keys, dim, sums = note.num_keys, note.dim, (note.keys_sum, note.rows_sum)
    shapes = ((num_keys,), (num_keys, dim))
    arrays = []
    for path, size, kind, shape, checksum in zip(paths, sizes, (dtype, "<f4"), shapes, sums):
        kind = np.dtype(kind)
        expected = int(np.prod(shape)) * kind.itemsize
        if size != expected:
            raise FileError(
                f"{path} is not as it was written: it has {size} bytes, and {places.note} says "
                f"{expected}"
            )
        extent = Extent(path, 0, size, checksum, "the file")
        arrays.append(StoredArray(kind, shape, (extent,) if size else ()))
    return arrays


@contextlib.contextmanager
def folder_lock(folder, mode):
    """Holds a folder against dumps, as these do; nothing where there are no locks."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # who uses the folder is told why
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, mode)
        yield
    finally:
        os.close(descriptor)


def until(place, dump_id):
    """Where a file is until the dump is complete, and remains if the process dies just there."""
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
