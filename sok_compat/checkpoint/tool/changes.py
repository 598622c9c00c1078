# SPDX-License-Identifier: Apache-2.0
"""`changes`: writes what a checkpoint changes as a Parquet file, for feature stores."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Iterator

import numpy as np

from sok_compat.checkpoint.files.file_error import FileError, naming
from sok_compat.checkpoint.files.saved_tables import Saved, open_saved
from sok_compat.checkpoint.files.stored_array import PIECE_BYTES, StoredArray, together
from sok_compat.checkpoint.tool.npy_files import Whole
from sok_compat.checkpoint.tool.sizes import counted


def run(options: argparse.Namespace) -> int:
    """Writes the file; returns the exit status."""
    num_changes = write_changes(options.path, options.to, options.table)
    print(f"{counted(num_changes, 'change')} of {options.path}: {options.to}")
    return 0


def check_has_pyarrow() -> None:
    """Raises FileError if pyarrow is missing."""
    import sok_compat.checkpoint.tool.parquet_changes  # noqa: F401


def write_changes(
    path: str | os.PathLike[str], to: str | os.PathLike[str], table: str | None = None
) -> int:
    """Writes what a checkpoint changes as a Parquet file: an increment the rows that have changed
    and the keys that are gone, a whole checkpoint all rows.

    Args:
      path: of the checkpoint, as for `open_saved`.
      to: the file, which appears when it is complete.
      table: only this one; None: all.

    Returns:
      The number of changes.

    Raises:
      FileError: a file is damaged, there is no such table, or pyarrow is missing.
    """
    from sok_compat.checkpoint.tool.parquet_changes import Writer  # needs pyarrow

    saved = open_saved(path)
    arrays = dict(_arrays_in(saved))
    if table is not None and table not in arrays:
        raise FileError(f"{path} has no table {table}; its tables: {', '.join(arrays) or 'none'}")
    chosen, step = [*arrays] if table is None else [table], _step_of(saved)
    with contextlib.ExitStack() as stack:
        whole = Whole(os.fspath(to), stack)
        with naming(whole.path), Writer(whole.until, [] if saved.base else chosen) as writer:
            for name in chosen:
                keys, rows, gone = arrays[name]
                for ranks, some, their_rows in _in_pieces([keys, rows]):
                    writer.append(name, step, ranks, some, their_rows)
                for ranks, some in _in_pieces([gone]) if gone is not None else ():
                    writer.append(name, step, ranks, some, None)
        whole.put_in_place()
        return writer.num_changes


def _arrays_in(
    saved: Saved,
) -> Iterator[tuple[str, tuple[StoredArray, StoredArray, StoredArray | None]]]:
    """Yields (table, (keys, their rows, keys that are gone))."""
    for table in saved.tables.values():
        yield table.name, (table.keys, table.rows, None)
    for changes in saved.changes:
        yield changes.name, (changes.keys, changes.rows, changes.gone)


def _in_pieces(arrays: list[StoredArray]) -> Iterator[list[np.ndarray]]:
    """Yields [the ranks that have written the keys, keys, ...]; the first array is the keys."""
    ranks, first = _ranks_of(arrays[0]), 0
    most_rows = max(1, PIECE_BYTES // max(each.row_bytes for each in arrays))
    for pieces in together(arrays, most_rows):
        end = first + len(pieces[0])
        yield [ranks[first:end], *pieces]
        first = end


def _ranks_of(keys: StoredArray) -> np.ndarray:
    """int32 [n], by the numbers of the data files; 0 for rows elsewhere."""
    parts = []
    for path, _, num_bytes in keys.files:
        number = re.search(r"\.data-(\d+)-of-\d+$", path)
        rank = int(number[1]) if number else 0
        parts.append(np.full(num_bytes // keys.row_bytes, rank, np.int32))
    parts += [np.zeros(len(part), np.int32) for part in keys.more]
    return np.concatenate([np.zeros(0, np.int32), *parts])


def _step_of(saved: Saved) -> int | None:
    """The global step of the checkpoint, or else the number at the end of its name."""
    if saved.bundle is not None and "global_step" in saved.bundle.tensors:
        for value in saved.bundle.array("global_step").pieces():
            return int(np.ravel(value)[0])
    number = re.search(r"-(\d+)$", saved.path)
    return int(number[1]) if number else None
