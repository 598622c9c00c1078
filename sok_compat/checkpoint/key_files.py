# SPDX-License-Identifier: Apache-2.0
"""A table's pair of files, keys and rows, written and read by ops."""

import os

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.ranks import is_connected
from sok_compat.runtime.tickets import begin_lookup


def dump_to_files(table, folder):
    """Writes the table's two files; without a hash index all rows, touched or not.

    `<folder>/<table_name>_keys.file` holds the keys, int64 or uint32 by the table's key_dtype, and
    `<folder>/<table_name>_values.file` the rows in the same order, float32; both little-endian,
    without a header. Slots of optimizers are not in them.

    Args:
      table: the Table.
      folder: str, path or string tensor; made if need be. Files of an earlier dump are replaced
        once the new ones are complete.

    Returns:
      The op.
    """
    return ops.sok_dump_table(
        table.table_handle,
        _as_folder(folder),
        tickets_of(table, "dump"),
        table_name=table.table_name,
        Tkey=table.key_dtype,
    )


def restore_from_files(table, folder, name=None):
    """Makes the table hold exactly what the two files hold.

    Keys may have been written by any number of ranks, as int64 or uint32.

    Args:
      table: the Table, initialized; what it held is forgotten.
      folder: str, path or string tensor.
      name: of the table that was dumped; None: the table's own.

    Returns:
      The op. Running it raises, and leaves the table as it was, when a file is missing (the
      message names other tables whose files are there) or has a wrong size, a key appears twice or
      is out of range, also of the key_dtype, or the keys are more than the capacity.

    Raises:
      TypeError, ValueError: folder is no path, or name no name.
    """
    return ops.sok_restore_table(
        table.table_handle,
        _as_folder(folder),
        tickets_of(table, "restore"),
        table_name=table.table_name if name is None else _checked_name(name),
        Tkey=table.key_dtype,
    )


def set_rows(table, rows):
    """Makes the table hold the keys 0..n-1 with the given rows.

    Args:
      table: the Table, initialized; what it held is forgotten.
      rows: float32 [n, dim], or a list or tuple of such, joined along the first axis.

    Returns:
      The op. Running it raises, and leaves the table as it was, when the shape does not fit or n is
      more than the capacity.
    """
    if isinstance(rows, (list, tuple)):
        rows = tf.concat([tf.convert_to_tensor(part, tf.float32) for part in rows], axis=0)
    rows = tf.convert_to_tensor(rows, tf.float32)
    num_rows = tf.size(rows, tf.int64) // table.dim  # of any shape: the op says what does not fit
    return assign_rows(table, tf.range(num_rows), rows)


def assign_rows(table, keys, rows):
    """Makes the table hold exactly these keys with these rows; slots of optimizers start as ever.

    On several ranks, all run it, with the same keys and rows: each takes those that it owns.

    Args:
      table: the Table, initialized; what it held is forgotten.
      keys: int64 [n], n >= 1: an array, list or tensor.
      rows: float32 [n, dim].

    Returns:
      The op. Running it raises, and leaves the table as it was on all ranks, when on one of them a
      shape does not fit, a key appears twice or is out of range, also of the key_dtype
      (InvalidArgumentError), or the keys are more than the capacity (ResourceExhaustedError).
    """
    return load_rows(table, keys, rows, tickets_of(table, "load"))


def load_rows(table, keys, rows, tickets):
    """As assign_rows; `tickets`: of tickets_of, made before keys and rows that may fail to come."""
    return ops.sok_load_table(
        table.table_handle,
        tf.convert_to_tensor(keys, tf.int64),
        tf.convert_to_tensor(rows, tf.float32),
        tickets,
        Tkey=getattr(table, "key_dtype_of_ids", table.key_dtype),
    )


def tickets_of(table, what):
    """What an op on the whole table meets those of other ranks with, in a list; none: alone."""
    if table.ranks.size == 1 or not is_connected():
        return []
    return [
        begin_lookup(f"{table.table_name} ({what})", table.kind(), f"{what}_{table.table_name}")
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
