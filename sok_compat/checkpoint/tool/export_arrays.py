# SPDX-License-Identifier: Apache-2.0
"""`export`: writes a table as NumPy arrays or a Parquet file."""

from __future__ import annotations

import argparse
import contextlib
import os

from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.saved_tables import open_saved
from sok_compat.checkpoint.files.stored_array import PIECE_BYTES, together
from sok_compat.checkpoint.tool import array_files, npy_files
from sok_compat.checkpoint.tool.sizes import counted


def run(options: argparse.Namespace) -> int:
    """Writes the files, all or none; returns the exit status."""
    files = array_files.kind_of(options.to)
    table = open_saved(options.path, options.key_dtype).table(options.table)
    planes = {"row": table.rows}
    if options.slots:
        names = [_short(name, table.name) for name in table.slots]
        taken = ["key", "row", *table.recorded]
        if len({*names, *taken}) < len(names) + len(taken):
            names = [name.replace("/", "_") for name in table.slots]
        npy_files.check_names_differ([*taken, *names])
        planes.update({**dict(zip(names, table.slots.values())), **table.recorded})
    for name, plane in planes.items():
        if plane.shape[0] != table.num_keys:
            raise FileError(
                f"{options.path}: {name} of the table {table.name} has {plane.shape[0]} rows for "
                f"{table.num_keys} keys"
            )
    with contextlib.ExitStack() as stack:
        writer = files.Writer(options.to, table.keys, planes, stack)
        row_bytes = sum(plane.row_bytes for plane in planes.values()) + table.keys.row_bytes
        most_rows = max(1, PIECE_BYTES // row_bytes)
        for keys, *rows in together([table.keys, *planes.values()], most_rows):
            writer.append(keys, rows)
        paths = writer.finish()
    print(f"{counted(table.num_keys, 'key')} of {table.name}: {', '.join(paths)}")
    return 0


def _short(slot_name, table_name):
    """A slot's name without the table's, for use in a file's name."""
    around = f"/{slot_name}/".replace(f"/{table_name}/", "/", 1)
    return around.strip("/").replace("/", "_") or os.path.basename(slot_name)
