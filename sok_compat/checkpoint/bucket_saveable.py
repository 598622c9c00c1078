# SPDX-License-Identifier: Apache-2.0
"""A table and its slots in a tf.train.Saver, in the layout of DeepRec's checkpoints."""

import tensorflow as tf

from sok_compat.checkpoint.names_of_parts import around_part
from sok_compat.checkpoint.streamed_save import StreamedTable, meeting_tickets
from sok_compat.runtime.op_library import ops
from sok_compat.tables.table_part import NUM_BUCKETS, TablePart


class BucketSaveable(StreamedTable):
    """All that a table holds, as nine tensors of the table and of each of its slots.

    The n keys are in buckets, floormod(key, 1000), bucket after bucket, ascending in each; slots
    have the same keys in the same order. X is the name of the table or slot:
      X-keys: [n], of the table's key_dtype_of_ids.
      X-values: float32 [n, width].
      X-versions, X-freqs: int64 [n], or [0]: what is recorded of the keys.
      X-keys_filtered, X-versions_filtered, X-freqs_filtered: [m], of keys that have no row.
      X-partition_offset, X-partition_filter_offset: int32 [1001]; where each bucket starts.
    And of the table X-seed, int64: what keys that come later start by, which DeepRec does not have;
    not where that is no matter of chance.

    Each of several ranks saves a part of its own, of the keys that it owns: rank r of N saves part
    p of P as X/part_<p * N + r>. Restoring makes the table hold what the checkpoint has of it, or
    of the buckets of its part, in however many parts it was saved, of the keys that the rank owns.
    Keys that a slot was not saved for hold its initial value there. The table may be used or not
    even initialized; when something does not fit, what it held stays, on all ranks.

    What the table says of its keys, all of it for this class:
      key_dtype_of_ids: tf.int64 or tf.int32.
      part: its TablePart; None: it is whole.
      before_save(): an op that runs before the table is read, or None.
      restore_recorded(keys, versions, freqs, filtered): an op that takes back what its history
        had recorded, or None; `filtered` is (keys, versions, freqs) of keys that have no row; a
        version or freq of -1 was not in the checkpoint.
    """

    def __init__(self, table, name, slot_names=None):
        """As RowsSaveable; slots of which a name is None need not be in what is restored."""
        self._slots = list(table.slots)
        given = slot_names or [None] * len(self._slots)
        slot_names = [x or slot.op.name for x, slot in zip(given, self._slots)]
        self._plane_names = [_around_part(table, name, x) for x in (name, *slot_names)]
        self._slot_is_required = [x is not None for x in given]
        super().__init__(table, name)

    def description(self):
        """See the base class."""
        return f"{self.table.kind()}, saved as {self._plane_names}"

    def save(self, checkpoint, tickets):
        """See the base class."""
        table = self.table
        return ops.sok_save_table(
            table.table_handle,
            checkpoint,
            [],
            tickets,
            table_name=self.name,
            titles=[f"{head}{self._part_of_rank()}{tail}" for head, tail in self._plane_names],
            slot_names=[slot.op.name for slot in self._slots],
            num_buckets=NUM_BUCKETS,
            Tkey=table.key_dtype_of_ids,
        )

    def _part_of_rank(self):
        part, ranks = self.table.part, self.table.ranks
        if ranks.size == 1:
            return part.suffix if part else ""
        return TablePart((part.index if part else 0) * ranks.size + ranks.rank, 0).suffix

    def restore(self, restored_tensors, restored_shapes):
        """The op that fills the table."""
        del restored_tensors, restored_shapes
        table = self.table
        with tf.control_dependencies(self.restored[-1:]):  # memory for one at a time
            tickets = meeting_tickets(table.ranks, f"restore_{self.name}", self.description())
            restored = restore_buckets(
                table, self.path, self._plane_names, self._slots, self._slot_is_required, tickets
            )
        self.restored.append(restored)
        return restored


def restore_buckets(table, path, plane_names, slots=(), slot_is_required=(), tickets=()):
    """The op that makes a table hold what a checkpoint has of it.

    Args:
      table: the table; see BucketSaveable.
      path: of the checkpoint, a string or scalar string tensor.
      plane_names: (head, tail) of the table and of each slot; see SokRestoreBuckets.
      slots: the SlotVariables that are restored; others hold their initial value.
      slot_is_required: of each slot, whether it fails that the checkpoint has nothing of it; else
        it holds its initial value, too, and a warning is logged.
      tickets: what the op meets those of other ranks with, so that all restore or none.
    """
    heads, tails = zip(*plane_names)
    part = table.part or TablePart(0, 1)
    are_there = [each.initialize_if_missing() for each in (table, *slots)]
    with tf.device(table.device), tf.control_dependencies(are_there):
        keys, versions, freqs, *filtered = ops.sok_restore_buckets(
            table.table_handle,
            path,
            list(tickets),
            heads=heads,
            tails=tails,
            slot_names=[slot.op.name for slot in slots],
            slot_is_required=slot_is_required,
            num_buckets=NUM_BUCKETS,
            num_parts=part.count,
            part=part.index,
            Tkey=table.key_dtype_of_ids,
        )
    recorded = table.restore_recorded(keys, versions, freqs, filtered)
    return tf.group(keys, *([] if recorded is None else [recorded]))


def _around_part(table, name, plane_name):
    return around_part(plane_name, (name, table.table_name), table.part)
