# SPDX-License-Identifier: Apache-2.0
"""Files that replace earlier ones together: `NewFile`, and `commit` by a note that lists them."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sok_compat.checkpoint.files.checksums import crc32c
from sok_compat.checkpoint.files.dump_files import folder_lock, until
from sok_compat.checkpoint.files.file_error import naming


class NewFile:
    """A newly created file, removed on exit unless `is_kept`.

    num_bytes: written so far.
    """

    def __init__(self, path: str) -> None:
        self._path, self._sum, self.is_kept, self.num_bytes = path, 0, False, 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.fdopen(os.open(path, flags, 0o666), "wb")
        with contextlib.suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_EX)  # a later dump removes unlocked files

    def append(self, data: np.ndarray | bytes) -> None:
        """Writes an array's bytes, or bytes."""
        data = np.ascontiguousarray(data) if isinstance(data, np.ndarray) else data
        self._sum = crc32c(data, self._sum)
        self.num_bytes += memoryview(data).nbytes
        with naming(self._path):
            self._file.write(data)

    def finish(self) -> int:
        """Flushes the file to disk, and returns its CRC-32C."""
        with naming(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
        return self._sum

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, *_: Any) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        if not self.is_kept:
            with contextlib.suppress(OSError):
                os.unlink(self._path)


def commit(
    folder: str,
    note: str,
    text: str,
    files: Mapping[str, NewFile],
    new_id: str,
    earlier_id: Callable[[], str],
) -> None:
    """Replaces files and their note together: until the note is renamed, the earlier ones count.

    Args:
      folder: of all files.
      note: path of the note.
      text: its content.
      files: {path: the finished NewFile at until(path, new_id)}.
      new_id: of these files.
      earlier_id: returns that of the note which is there now; '' if there is none.
    """
    with contextlib.ExitStack() as stack, folder_lock(folder, fcntl.LOCK_EX):
        written = stack.enter_context(NewFile(until(note, new_id)))
        written.append(text.encode())
        written.finish()
        sync_folder(folder)
        earlier = earlier_id()
        # Once the note is renamed these are the files: from here on they must stay.
        for file in files.values():
            file.is_kept = True
        written.is_kept = True
        os.rename(until(note, new_id), note)
        sync_folder(folder)
        for place in files:
            os.rename(until(place, new_id), place)
        sync_folder(folder)
        for place in files if earlier else ():
            with contextlib.suppress(OSError):
                os.unlink(until(place, earlier))  # if those were never renamed


def sync_folder(folder: str) -> None:
    """Flushes a folder's entries to disk, where that is possible."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
