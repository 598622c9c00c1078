# SPDX-License-Identifier: Apache-2.0
"""A table and its slots in a tf.train.Saver, as slices of one tensor each over all ranks."""

import tensorflow as tf

from sok_compat.checkpoint.streamed_save import StreamedTable, meeting_tickets
from sok_compat.runtime.op_library import ops


class RowsSaveable(StreamedTable):
    """All that a table holds, for the n keys of all ranks, rank after rank, on each in the order of
    row ids:
      <name>/keys: int64 [n].
      <name>/rows: float32 [n, dim].
      the name of each slot: float32 [n, width of the slot].
      <name>/seed: int64, what keys that come later start by; not where that is no matter of chance.

    Restoring makes the table hold those of the keys that this rank owns, whichever ranks saved
    them. It may have another capacity, and may be used or not even initialized; when something does
    not fit, what it held stays, on all ranks.
    """

    def __init__(self, table, name, slot_names=None, variables=(), slots=None):
        """Makes no ops.

        Args:
          table: the Table.
          name: of the table in the checkpoint.
          slot_names: of its slots there, in their order; None, or None for a slot: its own name.
          variables: [(name in the checkpoint, variable)] of slots that are ordinary variables, with
            a row for each of the table's.
          slots: the SlotVariables that belong to it; None: table.slots.
        """
        self._slots = list(table.slots if slots is None else slots)
        self._variables = [variable for _, variable in variables]
        given = slot_names or [None] * len(self._slots)
        slot_names = [x or slot.op.name for x, slot in zip(given, self._slots)]
        self._titles = [f"{name}/rows", *slot_names, *(title for title, _ in variables)]
        super().__init__(table, name)

    def description(self):
        """See the base class."""
        return f"{self.table.kind()}, saved as {self._titles}"

    def save(self, checkpoint, tickets):
        """See the base class."""
        return ops.sok_save_table(
            self.table.table_handle,
            checkpoint,
            [variable.handle for variable in self._variables],
            tickets,
            table_name=self.name,
            titles=self._titles,
            slot_names=[slot.plane_name for slot in self._slots],
            Tkey=tf.int64,
        )

    def restore(self, restored_tensors, restored_shapes):
        """The op that fills the table."""
        del restored_tensors, restored_shapes
        table = self.table
        # Memory for one table at a time.
        with tf.control_dependencies(self.restored[-1:]), tf.device(table.device):
            parts = [] if tf.executing_eagerly() else [table, *self._slots]
            are_there = [part.initialize_if_missing() for part in parts]
            with tf.control_dependencies(are_there):
                row_ids, of_variables = ops.sok_restore_rows(
                    table.table_handle,
                    self.path,
                    meeting_tickets(table.ranks, f"restore_{self.name}", self.description()),
                    table_name=self.name,
                    titles=self._titles,
                    slot_names=[slot.plane_name for slot in self._slots],
                    num_variables=len(self._variables),
                    widths=[variable.shape[1] for variable in self._variables],
                    Tkey=table.key_dtype,
                )
        assigned = [
            _assign_rows(variable, row_ids, rows)
            for variable, rows in zip(self._variables, of_variables)
        ]
        restored = tf.group(row_ids, *assigned)
        self.restored.append(restored)
        return restored


def _assign_rows(variable, row_ids, rows):
    """Other rows become what they were at first."""
    with tf.device(variable.device):
        first = tf.convert_to_tensor(variable.initial_value)
        value = tf.tensor_scatter_nd_update(first, row_ids[:, tf.newaxis], rows)
        return variable.assign(value, read_value=False)
