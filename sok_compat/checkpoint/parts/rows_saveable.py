# SPDX-License-Identifier: Apache-2.0
"""`RowsSaveable`: a table and its slots in a tf.train.Saver, one tensor each over all ranks."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from sok_compat.checkpoint.streams.streamed_save import StreamedTable, collectives_of
from sok_compat.runtime.op_library import ops
from sok_compat.tables.slots.slot_variable import SlotVariable
from sok_compat.tables.table import Table


class RowsSaveable(StreamedTable):
    """A table's contents: the n keys of all ranks, rank by rank, each rank's in the order of row
    ids:
      <name>/keys: int64 [n].
      <name>/rows: float32 [n, dim].
      the name of each slot: float32 [n, width of the slot].
      <name>/freqs, <name>/versions: int64 [n], of a table with max_keys: 0, and when a lookup last
        used a key, in nanoseconds since 1970.
      <name>/seed: int64, of a table whose initial rows are random: seeds those of later keys.

    Restoring replaces the table's contents by the keys that this rank owns, whichever rank saved
    them. The table may have another capacity, and need not be initialized. If something does not
    fit, all ranks keep their contents.
    """

    def __init__(
        self,
        table: Table,
        name: str,
        slot_names: Sequence[str | None] | None = None,
        slots: Sequence[SlotVariable] | None = None,
    ) -> None:
        """Creates no ops.

        Args:
          slot_names: of its slots there, in their order; a slot's own name if None.
          slots: its slots; table.slots if None.
        """
        super().__init__(table, name, table.slots if slots is None else slots)
        given = slot_names or [None] * len(self.slots)
        self._slot_titles = [x or slot.op.name for x, slot in zip(given, self.slots)]

    def description(self) -> str:
        return f"{self.table.kind()}, saved as {self._names_to_read()}"

    def _names_to_save(self):
        """Attributes of SokSaveTable that name tensors."""
        titles = [f"{self.name}/rows", *self._slot_titles]
        return {"table_name": self.name, "titles": titles, "Tkey": tf.int64}

    def _names_to_read(self):
        """Attributes of SokCheckSaved and SokRestoreSaved that name tensors."""
        key_dtype = getattr(self.table, "key_dtype_of_ids", self.table.key_dtype)
        return {**self._names_to_save(), "Tkey": key_dtype}

    def save(self, checkpoint: tf.Tensor, collectives: list[tf.Tensor]) -> tf.Operation:
        return ops.sok_save_table(
            self.table.table_handle,
            checkpoint,
            collectives,
            slot_names=[slot.plane_name for slot in self.slots],
            **self._names_to_save(),
        )

    def check(
        self, path: tf.Tensor, reads: tf.Tensor, collectives: list[tf.Tensor]
    ) -> tf.Operation | None:
        with tf.device(self.table.device):
            return ops.sok_check_saved(
                self.table.table_handle,
                path,
                reads,
                collectives,
                slot_names=[slot.plane_name for slot in self.slots],
                **self._names_to_read(),
            )

    def restore_from_path(self) -> tf.Operation:
        """Returns the op that fills the table."""
        with tf.control_dependencies(self.restored[-1:]):  # one table at a time saves memory
            collectives = collectives_of(
                self.table.ranks, f"restore_{self.name}", self.description()
            )
            restored = self.filled(self.path, collectives)
        self.restored.append(restored)
        return restored

    def changes(self, path: tf.Tensor, is_next: tf.Tensor) -> list[tf.Tensor]:
        """Returns what differs between the table and a checkpoint, in rows, not in slots.

        Args:
          is_next: a scalar bool tensor, whether the table holds what the checkpoint, an increment,
            is based on: then the files before it are not read.

        Returns:
          [keys int64 [n], their rows float32 [n, dim], int64 keys that the checkpoint lacks].
        """
        names = {**self._names_to_read(), "slot_is_required": [], "fits_rows": False}
        of_rows = {each: names[each][:1] for each in ("titles", "tails") if each in names}
        names.update(of_rows, slot_names=[])
        with tf.device(self.table.device):
            return list(ops.sok_read_changes(self.table.table_handle, path, is_next, [], **names))

    def filled(self, path: str | tf.Tensor, collectives: Sequence[tf.Tensor] = ()) -> tf.Operation:
        """Returns the op that fills the table; all ranks of its collectives restore or none."""
        with tf.device(self.table.device):
            return ops.sok_restore_saved(
                self.table.table_handle,
                path,
                list(collectives),
                slot_names=[slot.plane_name for slot in self.slots],
                **self._names_to_read(),
            )
