# SPDX-License-Identifier: Apache-2.0
"""`sok.export` and `sok.assign` of an optimizer's slot: its rows by key.

In SparseOperationKit 2 such a slot is a DynamicVariable of its own.
"""

from __future__ import annotations

import tensorflow as tf

from sok_compat.runtime.checked import checked
from sok_compat.runtime.op_library import ops
from sok_compat.tables.slots.slot_variable import SlotVariable


def rows_of_slot(slot: SlotVariable) -> tuple[tf.Tensor, tf.Tensor]:
    """(keys int64 [n] of this rank, the slot's rows [n, width])"""
    keys, _ = ops.sok_export_table(slot.table_handle)
    rows = tf.raw_ops.ResourceGather(
        resource=slot.handle, indices=_row_ids(slot, keys, "sok.export"), dtype=tf.float32
    )
    rows.set_shape([None, slot.width])
    return keys, rows


def assign_rows_of_slot(
    slot: SlotVariable, keys: tf.Tensor, rows: tf.Tensor
) -> tf.Operation | None:
    """Sets the slot's rows of keys, int64 [n], to rows float32 [n, width].

    Returns:
      The op; None in eager mode.

    Raises:
      tf.errors.InvalidArgumentError: when run: a key has no row on this rank.
    """
    row_ids = _row_ids(slot, keys, "sok.assign")
    return tf.raw_ops.ResourceScatterUpdate(resource=slot.handle, indices=row_ids, updates=rows)


def _row_ids(slot, keys, user):
    with tf.device(slot.device):
        (row_ids,) = ops.sok_find_rows(
            [slot.table_handle], [keys], [], insert=False, keys_are_distinct=True
        )
        message = f"{user} of {slot.name}: a key has no row on this rank; a lookup inserts it"
        return checked(row_ids, tf.reduce_all(row_ids >= 0), message, keys)
