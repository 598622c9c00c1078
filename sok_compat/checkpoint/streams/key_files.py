# SPDX-License-Identifier: Apache-2.0
"""Ops that dump a table to a pair of files, keys and rows, and set its contents."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.streams.dumps import DumpedTable, dump_tables
from sok_compat.ranks.collectives import begin_collective
from sok_compat.ranks.identity import is_connected
from sok_compat.runtime.op_library import ops
from sok_compat.tables.table import Table


@tf.autograph.experimental.do_not_convert
def dump_to_files(table: Table, folder: str | os.PathLike[str] | tf.Tensor) -> tf.Operation:
    """Writes a table's two files; without a hash index, all rows, used or not.

    `<folder>/<table_name>_keys.file` holds the keys, int64 or uint32 by the table's key_dtype, and
    `<folder>/<table_name>_values.file` the rows in the same order, float32; both little-endian,
    without a header. They do not include optimizer slots. They hold all of a step, on all ranks, or
    none of it.

    Args:
      table: the Table.
      folder: created if it is missing. Files of an earlier dump are replaced when the new ones are
        complete.

    Returns:
      The op.
    """
    dumped = DumpedTable(table, table.table_name, table.key_dtype, "pair")
    return dump_tables(_as_folder(folder), [dumped])


@tf.autograph.experimental.do_not_convert
def restore_from_files(
    table: Table, folder: str | os.PathLike[str] | tf.Tensor, name: str | None = None
) -> tf.Operation:
    """Replaces a table's contents by those of its two files.

    The files may come from any number of ranks, with keys as int64 or uint32.

    Args:
      table: the Table, initialized.
      folder: of the dump.
      name: of the dumped table; the table's own if None.

    Returns:
      The op. Running it raises, and leaves the table as it was, if a file is missing (the message
      names other dumped tables in the folder) or has a wrong size, a key appears twice or is out of
      the key_dtype's range, or there are more keys than the capacity.

    Raises:
      TypeError, ValueError: folder is not a path, or name not a name.
    """
    name = table.table_name if name is None else _checked_name(name)
    dumped = DumpedTable(table, name, table.key_dtype, "pair")
    return dumped.restore_from(_as_folder(folder), collectives_of_table(table, "restore"))


@tf.autograph.experimental.do_not_convert
def set_rows(table: Table, rows: Any) -> tf.Operation:
    """Replaces a table's contents by the keys 0..n-1 with the given rows.

    Args:
      table: the Table, initialized.
      rows: float32 [n, dim], or a list or tuple of such, concatenated along the first axis.

    Returns:
      The op. Running it raises, and leaves the table as it was, if the shape does not fit or n is
      more than the capacity.
    """
    if isinstance(rows, (list, tuple)):
        rows = tf.concat([tf.convert_to_tensor(part, tf.float32) for part in rows], axis=0)
    rows = tf.convert_to_tensor(rows, tf.float32)
    num_rows = tf.size(rows, tf.int64) // table.dim  # of any shape: the op raises if it is wrong
    return assign_rows(table, tf.range(num_rows), rows)


@tf.autograph.experimental.do_not_convert
def assign_rows(table: Table, keys: Any, rows: Any) -> tf.Operation:
    """Replaces a table's contents by the given keys and rows.

    Optimizer slots start with their initial values. All ranks run the op with the same keys and
    rows, and each takes the keys that it owns.

    Args:
      table: the Table, initialized.
      keys: int64 [n], n >= 1: an array, list or tensor.
      rows: float32 [n, dim].

    Returns:
      The op. Running it raises, and leaves the table as it was on all ranks, if on one of them a
      shape does not fit, a key appears twice or is out of the key_dtype's range
      (InvalidArgumentError), or there are more keys than the capacity (ResourceExhaustedError).
    """
    collectives = collectives_of_table(table, "load")  # before keys and rows are read
    return ops.sok_load_table(
        table.table_handle,
        tf.convert_to_tensor(keys, tf.int64),
        tf.convert_to_tensor(rows, tf.float32),
        collectives,
        Tkey=getattr(table, "key_dtype_of_ids", table.key_dtype),
    )


def collectives_of_table(table: Table, what: str) -> list[tf.Tensor]:
    """The collectives of an op on the whole table: one, or [] for a single rank.

    Args:
      what: the op's purpose, the same on all ranks.
    """
    if table.ranks.size == 1 or not is_connected():
        return []
    return [
        begin_collective(f"{table.table_name} ({what})", table.kind(), f"{what}_{table.table_name}")
    ]


def _checked_name(name):
    if not isinstance(name, str):
        raise TypeError(f"name must be that of a dumped table, a str, got {name!r}")
    if not name:
        raise ValueError("name must be that of a dumped table, got ''")
    return name


def _as_folder(folder):
    try:
        folder = os.fspath(folder) if isinstance(folder, os.PathLike) else folder
        return tf.convert_to_tensor(folder, tf.string)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"filepath must be a folder, as str, path or string tensor, got {folder!r}"
        ) from error
