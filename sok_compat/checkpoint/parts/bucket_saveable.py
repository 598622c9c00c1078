# SPDX-License-Identifier: Apache-2.0
"""`BucketSaveable`: a table and its slots in a tf.train.Saver, in DeepRec's layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from sok_compat.checkpoint.parts.names_of_parts import around_part
from sok_compat.checkpoint.streams.streamed_save import StreamedTable, collectives_of
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.settings import SAVE_FILTERED_KEYS
from sok_compat.tables.stored.table_part import NUM_BUCKETS, TablePart

if TYPE_CHECKING:
    from sok_compat.tables.slot_variable import SlotVariable
    from sok_compat.tables.table import Table


class BucketSaveable(StreamedTable):
    """A table's contents as nine tensors for the table and for each of its slots.

    The n keys are sorted by bucket, floormod(key, 1000), and ascending in each; slots have the same
    keys in the same order. X is the name of the table or slot:
      X-keys: [n], of the table's key_dtype_of_ids.
      X-values: float32 [n, width].
      X-versions, X-freqs: int64 [n]; [0] if they are not recorded.
      X-keys_filtered, X-versions_filtered, X-freqs_filtered: [m], of keys without a row; none with
        TF_EV_SAVE_FILTERED_FEATURES=False.
      X-partition_offset, X-partition_filter_offset: int32 [1001], the start of each bucket.
    In addition to DeepRec's tensors, X-seed-versions, int64, of a table whose initial rows are
    random, seeds those of later keys.

    Each rank saves the keys that it owns as a part: rank r of N saves part p of P as
    X/part_<p * N + r>. Restoring replaces the table's contents by the keys of the checkpoint that
    the rank owns, or those of them in the buckets of its part; the checkpoint may have any number
    of parts. Keys without a saved slot row get the slot's initial value. The table need not be
    initialized. If something does not fit, all ranks keep what they held.

    This class uses, beyond a Table's common attributes:
      key_dtype_of_ids: tf.int64 or tf.int32.
      part: its TablePart; None if it is whole.
      before_save(): an op that runs before the table is read, or None.
    """

    def __init__(
        self, table: Table, name: str, slot_names: Sequence[str | None] | None = None
    ) -> None:
        """As RowsSaveable; a slot whose name is None may be missing from a restored checkpoint."""
        super().__init__(table, name, table.slots)
        given = slot_names or [None] * len(self.slots)
        slot_names = [x or slot.op.name for x, slot in zip(given, self.slots)]
        self._plane_names = [_around_part(table, name, x) for x in (name, *slot_names)]
        self._slot_is_required = [x is not None for x in given]

    def description(self) -> str:
        """See the base class."""
        return f"{self.table.kind()}, saved as {self._plane_names}"

    def save(self, checkpoint: tf.Tensor, collectives: list[tf.Tensor]) -> tf.Operation:
        """See the base class."""
        table = self.table
        return ops.sok_save_table(
            table.table_handle,
            checkpoint,
            [],
            collectives,
            table_name=self.name,
            titles=[f"{head}{self._part_of_rank()}{tail}" for head, tail in self._plane_names],
            slot_names=[slot.op.name for slot in self.slots],
            num_buckets=NUM_BUCKETS,
            saves_waiting_keys=SAVE_FILTERED_KEYS.value(),
            Tkey=table.key_dtype_of_ids,
        )

    def _part_of_rank(self):
        part, ranks = self.table.storage.part, self.table.ranks
        if ranks.size == 1:
            return part.suffix if part else ""
        return TablePart((part.index if part else 0) * ranks.size + ranks.rank, 0).suffix

    def check(
        self, path: tf.Tensor, reads: tf.Tensor, collectives: list[tf.Tensor]
    ) -> tf.Operation | None:
        """See the base class."""
        table = self.table
        with tf.device(table.device):
            return ops.sok_check_buckets(
                table.table_handle,
                path,
                reads,
                collectives,
                **_what_to_read(table, self._plane_names, self.slots, self._slot_is_required),
            )

    def restore(
        self,
        restored_tensors: Sequence[tf.Tensor] | None,
        restored_shapes: Sequence[tf.TensorShape] | None,
    ) -> tf.Operation:
        """Returns the op that fills the table."""
        del restored_tensors, restored_shapes
        table = self.table
        with tf.control_dependencies(self.restored[-1:]):  # one table at a time saves memory
            collectives = collectives_of(table.ranks, f"restore_{self.name}", self.description())
            restored = restore_buckets(
                table,
                self.path,
                self._plane_names,
                self.slots,
                self._slot_is_required,
                collectives,
            )
        self.restored.append(restored)
        return restored


def restore_buckets(
    table: Table,
    path: str | tf.Tensor,
    plane_names: Sequence[tuple[str, str]],
    slots: Sequence[SlotVariable] = (),
    slot_is_required: Sequence[bool] = (),
    collectives: Sequence[tf.Tensor] = (),
) -> tf.Operation:
    """Returns the op that replaces a table's contents by those in a checkpoint.

    Args:
      table: the table; see BucketSaveable.
      path: of the checkpoint, a str or scalar string tensor.
      plane_names: (head, tail) of the table and of each slot; see SokRestoreBuckets.
      slots: the slots to restore; others get their initial value.
      slot_is_required: for each slot, whether the op fails if the checkpoint lacks it; otherwise
        the slot gets its initial value, and a warning is logged.
      collectives: the op's collectives, so that all ranks restore or none.
    """
    planes: list[Table | SlotVariable] = [table, *slots]
    are_there = [each.initialize_if_missing() for each in planes]
    with tf.device(table.device), tf.control_dependencies(are_there):
        return ops.sok_restore_buckets(
            table.table_handle,
            path,
            list(collectives),
            **_what_to_read(table, plane_names, slots, slot_is_required),
        )


def _what_to_read(table, plane_names, slots, slot_is_required):
    """Attributes of SokCheckBuckets and SokRestoreBuckets."""
    heads, tails = zip(*plane_names)
    part = table.storage.part or TablePart(0, 1)
    return {
        "heads": heads,
        "tails": tails,
        "slot_names": [slot.op.name for slot in slots],
        "slot_is_required": slot_is_required,
        "num_buckets": NUM_BUCKETS,
        "num_parts": part.count,
        "part": part.index,
        "Tkey": table.key_dtype_of_ids,
    }


def _around_part(table, name, plane_name):
    return around_part(plane_name, (name, table.table_name), table.storage.part)
