# SPDX-License-Identifier: Apache-2.0
"""`assign_from`: sets a table to the rows that a checkpoint or dump has of it or another table."""

from __future__ import annotations

import os

import tensorflow as tf

from sok_compat.checkpoint.files.table_names import ROWS, find_tables
from sok_compat.checkpoint.parts.bucket_saveable import BucketSaveable
from sok_compat.checkpoint.parts.names_of_parts import whole_name
from sok_compat.checkpoint.parts.rows_saveable import RowsSaveable
from sok_compat.checkpoint.streams.key_files import collectives_of_table, restore_from_files
from sok_compat.checkpoint.streams.stored_tensors import chain_of, tensors_in
from sok_compat.tables.table import Table


def assign_from(
    table: Table, source: str | os.PathLike[str], name: str | None = None
) -> tf.Operation:
    """Replaces a table's contents by the keys and rows of a table in a checkpoint or dump.

    Optimizer slots start with their initial values. All ranks run the op, and each takes the keys
    that it owns, whichever rank saved them. If something does not fit, the table stays as it was.

    Args:
      table: the Table, initialized.
      source: the prefix of a checkpoint, in any layout; a folder with checkpoints, of which the
        latest is chosen now; or a folder of dumps, written by dump_to_files, sok.Saver or
        `python -m sok_compat.checkpoint import`.
      name: of the table there, without a part; the table's own if None.

    Returns:
      The op. Running it raises as assign_rows does, and DataLossError for damaged files.

    Raises:
      ValueError: the checkpoint has no such table; or the table is one of several parts, and the
        checkpoint is not in DeepRec's layout.
      tf.errors.NotFoundError: there is no such checkpoint.
    """
    source = os.fspath(source)
    name = whole_name(table) if name is None else name
    prefix = source
    if tf.io.gfile.isdir(source):
        prefix = tf.train.latest_checkpoint(source)
        if prefix is None:
            _raise_for_part(table, source)
            return restore_from_files(table, source, name)
    whole = chain_of(prefix)[0]
    tensors = tensors_in(whole)
    saved = _table_called(name, whole, tensors)
    collectives = collectives_of_table(table, "assign")
    if saved.layout == ROWS or table.storage.layout is not BucketSaveable:
        _raise_for_part(table, prefix)
    layout = RowsSaveable if saved.layout == ROWS else BucketSaveable
    return layout(table, name, slots=()).filled(prefix, collectives)


def _table_called(name, prefix, tensors):
    found = find_tables(tensors)
    for saved in found:
        if saved.name == name:
            return saved
    raise ValueError(
        f"the checkpoint {prefix} has no table {name}; its tables: "
        f"{', '.join(saved.name for saved in found) or 'none'}"
    )


def _raise_for_part(table, source):
    part = table.storage.part
    if part is not None and part.count > 1:
        raise ValueError(
            f"{table.table_name} is one of {part.count} parts, which can only be assigned "
            f"from checkpoints in DeepRec's layout, and {source} is not one: create the table "
            "without a partitioner"
        )
