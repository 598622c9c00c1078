# SPDX-License-Identifier: Apache-2.0
"""`write_dump`: writes the pair of files of sok.Saver atomically."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterable

import numpy as np

from sok_compat.checkpoint.files.checksums import crc32c
from sok_compat.checkpoint.files.dump_files import (
    ID_DIGITS,
    KEY_DTYPES,
    DumpNote,
    DumpPlaces,
    folder_lock,
    until,
)
from sok_compat.checkpoint.files.file_error import FileError, naming


def write_dump(
    places: DumpPlaces,
    dim: int,
    pieces: Iterable[tuple[np.ndarray, np.ndarray]],
    key_dtype: str = "int64",
) -> int:
    """Writes a dump, and replaces an earlier one atomically, as the op library does.

    Args:
      places: paths of its files; the folder is created if it is missing.
      dim: floats in a row.
      pieces: yields (keys int64 [n], rows float32 [n, dim]). If it raises, the earlier dump stays.
      key_dtype: dtype of the keys in the file, 'int64' or 'uint32'; all keys must fit.

    Returns:
      The number of keys.

    Raises:
      FileError: a folder has the name of one of the files.
      OSError: a file cannot be written.
    """
    folder = os.path.dirname(places.keys) or "."
    os.makedirs(folder, exist_ok=True)
    for place in (places.keys, places.rows, places.note):
        if os.path.isdir(place):
            raise FileError(f"{place} is a folder, but a file of the dump needs this name")
    dump_id = secrets.token_hex(ID_DIGITS // 2)
    with contextlib.ExitStack() as stack:
        with folder_lock(folder, fcntl.LOCK_SH):
            files = [
                stack.enter_context(_NewFile(until(place, dump_id)))
                for place in (places.keys, places.rows)
            ]
        num_keys = 0
        for keys, rows in pieces:
            files[0].append(keys.astype(KEY_DTYPES[key_dtype]))
            files[1].append(rows.astype("<f4"))
            num_keys += len(keys)
        sums = [file.finish() for file in files]
        note = DumpNote(
            dump_id, num_keys, KEY_DTYPES[key_dtype].itemsize, sums[0], max(1, dim), sums[1]
        )
        _commit(folder, places, note, files, stack)
    return num_keys


def _commit(folder, places, note, files, stack):
    with folder_lock(folder, fcntl.LOCK_EX):
        written = stack.enter_context(_NewFile(until(places.note, note.id)))
        written.append(note.to_text().encode())
        written.finish()
        _sync(folder)
        earlier = _earlier_id(places)
        # Once the note is renamed it is the dump: from here on its files must stay.
        for file in files:
            file.is_kept = True
        written.is_kept = True
        os.rename(until(places.note, note.id), places.note)
        _sync(folder)
        for place in (places.keys, places.rows):
            os.rename(until(place, note.id), place)
        _sync(folder)
        for place in (places.keys, places.rows) if earlier else ():
            with contextlib.suppress(OSError):
                os.unlink(until(place, earlier))  # if that dump was never renamed


def _earlier_id(places):
    try:
        note = DumpNote.read(places.note)
    except FileError:
        return ""
    return note.id if note else ""


class _NewFile:
    """A newly created file, removed on exit unless `is_kept`."""

    def __init__(self, path):
        self._path, self._sum, self.is_kept = path, 0, False
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.fdopen(os.open(path, flags, 0o666), "wb")
        with contextlib.suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_EX)  # a later dump removes unlocked files

    def append(self, data):
        data = np.ascontiguousarray(data) if isinstance(data, np.ndarray) else data
        self._sum = crc32c(data, self._sum)
        with naming(self._path):
            self._file.write(data)

    def finish(self):
        """Flushes the file to disk, and returns its CRC-32C."""
        with naming(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
        return self._sum

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._file.close()
        if not self.is_kept:
            with contextlib.suppress(OSError):
                os.unlink(self._path)


def _sync(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
