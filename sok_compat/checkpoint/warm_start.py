# SPDX-License-Identifier: Apache-2.0
"""Tables that begin with the rows that a checkpoint or dump has, of this or another table."""

import os

import tensorflow as tf

from sok_compat.checkpoint.bucket_saveable import BucketSaveable, restore_buckets
from sok_compat.checkpoint.files.table_names import BUCKETS, ROWS, find_tables, tensors_of
from sok_compat.checkpoint.key_files import load_rows, restore_from_files, tickets_of
from sok_compat.checkpoint.series import chain_of
from sok_compat.runtime.op_library import ops


def assign_from(table, source, name=None):
    """Makes a table hold exactly the keys and rows that a checkpoint or dump has of a table; slots
    of optimizers start as ever.

    On several ranks, all run it: each takes the keys that it owns, whoever saved them. What does
    not fit leaves the table as it was.

    Args:
      table: the Table, initialized; what it held is forgotten.
      source: a str or path: the prefix of a checkpoint, whichever of the layouts it has the table
        in; a folder with checkpoints, of which the latest is taken now; or a folder of dumps, as
        of dump_to_files, sok.Saver and `python -m sok_compat.checkpoint import`.
      name: of the table there, without a part; None: the table's own.

    Returns:
      The op. Running it raises as assign_rows, and for files that are not as they were written
      (DataLossError).

    Raises:
      ValueError: the checkpoint has no such table, or the table is one part of several and the
        checkpoint has it not in DeepRec's layout; it is an increment in that layout, and the table
        none of DeepRec's.
      tf.errors.NotFoundError: there is no such checkpoint.
    """
    source = os.fspath(source)
    name = _whole_name(table) if name is None else name
    prefix = source
    if tf.io.gfile.isdir(source):
        prefix = tf.train.latest_checkpoint(source)
        if prefix is None:
            _raise_for_part(table, source)
            return restore_from_files(table, source, name)
    whole = chain_of(prefix)[0]
    tensors = tensors_of(tf.train.load_checkpoint(whole))
    saved = _table_called(name, whole, tensors)
    tickets = tickets_of(table, "assign")
    if saved.layout == BUCKETS and table.saver_layout is BucketSaveable:
        return restore_buckets(table, prefix, [(name, "")], tickets=tickets)
    _raise_for_part(table, prefix)
    if saved.layout == ROWS:
        return _restore_rows(table, prefix, name, tickets)
    if whole != prefix:
        raise ValueError(
            f"{prefix} is an increment of {whole}, which has {name} in DeepRec's layout: assign an "
            "embedding variable from it, or restore it and save a whole checkpoint"
        )
    keys = tf.cast(
        _tensor(prefix, saved.keys, tf.dtypes.as_dtype(tensors[saved.keys[0]][0])), tf.int64
    )
    return load_rows(table, keys, _tensor(prefix, saved.rows, tf.float32), tickets)


def _whole_name(table):
    return table.table_name.removesuffix(table.part.suffix if table.part else "")


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
    if table.part is not None and table.part.count > 1:
        raise ValueError(
            f"{table.table_name} is one of {table.part.count} parts, which can be assigned from "
            f"checkpoints of DeepRec's layout, and {source} is none: make it without a partitioner"
        )


def _restore_rows(table, prefix, name, tickets):
    with tf.device(table.device):
        row_ids, _ = ops.sok_restore_rows(
            table.table_handle,
            prefix,
            tickets,
            num_variables=0,
            table_name=name,
            titles=[f"{name}/rows"],
            slot_names=[],
            widths=[],
            Tkey=table.key_dtype,
        )
        return tf.group(row_ids)


def _tensor(prefix, names, dtype):
    """That of all parts, one after the other; read when it is run."""
    with tf.device("/cpu:0"):
        parts = tf.raw_ops.RestoreV2(
            prefix=prefix,
            tensor_names=list(names),
            shape_and_slices=[""] * len(names),
            dtypes=[dtype] * len(names),
        )
        return tf.concat(parts, axis=0)
