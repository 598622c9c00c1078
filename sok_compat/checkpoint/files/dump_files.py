# SPDX-License-Identifier: Apache-2.0
"""Dumps of sok.Saver: the pair of files of a table, and their note. The engine's module has the
format."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np

from sok_compat.checkpoint.files.file_error import as_file_errors
from sok_compat.checkpoint.files.stored_array import StoredArray
from sok_compat.engine import _engine

KEY_DTYPES = ("int64", "uint32")


ENDINGS = ("_keys.file", "_values.file", ".dump")  # of a table's keys, rows and note


def dumped_tables(folder: str) -> list[str]:
    """Sorted names of the tables with a dump in a folder or below it."""
    names = set()
    for parent, _, files in os.walk(folder):
        for file in files:
            for suffix in ENDINGS:
                if file.endswith(suffix) and file != suffix:
                    path = os.path.join(parent, file[: -len(suffix)])
                    names.add(os.path.relpath(path, folder))
    return sorted(names)


def open_dump(folder: str, name: str, key_dtype: str) -> tuple[StoredArray, StoredArray]:
    """Opens the dump of a table, whose name may contain folders.

    Args:
      key_dtype: 'int64' or 'uint32', used if there is no note.

    Returns:
      (keys [n], rows [n, dim]).

    Raises:
      FileError: a file is missing or has the wrong size.
    """
    with as_file_errors():
        pair = _engine.Pair(folder or ".", name, key_dtype == "uint32")
    arrays: list[StoredArray] = []
    for path, dtype_name, num_rows, width, header_bytes, is_checked in pair.columns():
        shape = (num_rows, width) if arrays else (num_rows,)
        num_bytes = num_rows * width * np.dtype(dtype_name).itemsize
        files = ((path, header_bytes, num_bytes),) if num_bytes else ()
        arrays.append(StoredArray(dtype_name, shape, files, (pair.verify,), is_checked))
    keys, rows = arrays
    return keys, rows


def write_dump(
    folder: str,
    name: str,
    dim: int,
    pieces: Iterable[tuple[np.ndarray, np.ndarray]],
    key_dtype: str,
) -> int:
    """Writes a dump, and replaces an earlier one atomically; returns the number of keys.

    Args:
      folder: of its files; created if it is missing.
      name: of the table; may contain folders.
      pieces: yields (keys int64 [n], rows float32 [n, dim]). If it raises, the earlier dump stays.
      key_dtype: dtype of the keys in the file, 'int64' or 'uint32'; all keys must fit.

    Raises:
      FileError: a file cannot be written.
    """
    num_keys = 0
    with as_file_errors():
        writer = _engine.PairDumpWriter(folder, name, key_dtype == "uint32")
    try:
        writer.append(0, dim, 0, 0)
        for keys, rows in pieces:
            keys, rows = np.ascontiguousarray(keys, "<i8"), np.ascontiguousarray(rows, "<f4")
            with as_file_errors():
                writer.append(len(keys), dim, keys.ctypes.data, rows.ctypes.data)
            num_keys += len(keys)
        with as_file_errors():
            writer.commit()
    finally:
        writer.close()
    return num_keys
