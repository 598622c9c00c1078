# SPDX-License-Identifier: Apache-2.0
"""`write_dump`: writes the pair of files of sok.Saver atomically."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterable

import numpy as np

from sok_compat.checkpoint.files.dump_files import (
    ID_DIGITS,
    KEY_DTYPES,
    DumpNote,
    DumpPlaces,
    folder_lock,
    until,
)
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.new_files import NewFile, commit


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
                stack.enter_context(NewFile(until(place, dump_id)))
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
        commit(
            folder,
            places.note,
            note.to_text(),
            dict(zip((places.keys, places.rows), files)),
            dump_id,
            lambda: _earlier_id(places),
        )
    return num_keys


def _earlier_id(places):
    try:
        note = DumpNote.read(places.note)
    except FileError:
        return ""
    return note.id if note else ""
