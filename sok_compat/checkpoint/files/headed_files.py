# SPDX-License-Identifier: Apache-2.0
"""Names of the files of SparseOperationKit 2's dumps; ops/formats/dumps reads and writes them."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator

from sok_compat.engine import _engine


def file_stem(table_name: str) -> str:
    """The beginning of a table's file names: its name, with '_' for punctuation."""
    return _engine.stem_of_headed_dump(table_name)


def bytes_of_dumps(folder: str, table_names: Iterable[str]) -> int:
    """Bytes of tables' files in a folder; 0 if it cannot be read."""
    stems = tuple(f"{file_stem(name)}-" for name in table_names)
    try:
        with os.scandir(folder) as entries:
            return sum(each.stat().st_size for each in entries if each.name.startswith(stems))
    except OSError:  # loading says what is wrong
        return 0


@contextlib.contextmanager
def no_dump_ends(folder: str) -> Iterator[None]:
    """Context in which no dump into a folder ends, so that several tables are read from one dump.

    Dumps wait for it, on file systems with locks.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # reading says what is wrong
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked child may have it open, too
        os.close(descriptor)
