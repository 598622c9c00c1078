# SPDX-License-Identifier: Apache-2.0
"""A table and its slots as one object of a tf.train.Checkpoint."""

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import BaseSaverBuilder
from sok_compat.tables.slot_names import owner_by_name


class TableSaveable(BaseSaverBuilder.SaveableObject):
    """All that a table holds, as tensors of a checkpoint.

    For the n keys that the table holds, in the order of row ids:
      <name>/keys: int64 [n].
      <name>/rows: float32 [n, dim].
      the name of each slot: float32 [n, width of the slot].

    Restoring makes the table hold exactly that. It may have another capacity, and may be used or
    not even initialized; when something does not fit, what it held stays.
    """

    def __init__(self, table, name):
        """Makes the ops that read the table, in the default graph.

        Args:
          table: the Table.
          name: of the table in the checkpoint.

        Raises:
          NotImplementedError: several ranks share the table.
        """
        self._table = table
        self._slots = list(table.slots)
        keys, rows, slots = export_planes(table, self._slots)
        slot_names = [slot.op.name for slot in self._slots]
        tensors = [(f"{name}/keys", keys), (f"{name}/rows", rows), *zip(slot_names, slots)]
        specs = [BaseSaverBuilder.SaveSpec(tensor, "", title) for title, tensor in tensors]
        super().__init__(table.handle, specs, name)

    def restore(self, restored_tensors, restored_shapes):
        """The op that fills the table; what TensorFlow's reshape=True asks for does not apply."""
        del restored_shapes
        keys, rows, *slots = restored_tensors
        parts = [self._table, *self._slots]
        are_there = [part.initialize_if_missing() for part in parts]
        with tf.device(self._table.device), tf.control_dependencies(are_there):
            return ops.sok_import_planes(
                self._table.table_handle,
                keys,
                rows,
                slots,
                slot_names=[slot.op.name for slot in self._slots],
                Tkey=self._table.key_dtype,
            )


def export_planes(table, slots):
    """What it holds, in the order of row ids: keys int64 [n], rows float32 [n, dim] and, of each
    slot, float32 [n, width]; after what the table asks for before it is saved.

    Args:
      table: the Table.
      slots: its SlotVariables.

    Raises:
      NotImplementedError: several ranks share the table.
    """
    if table.placement.is_spread:
        raise NotImplementedError(
            f"tf.train.Checkpoint does not save the table {table.table_name} of "
            f"{table.ranks.size} ranks, each of which has its own keys: use tf.train.Saver, on all "
            "ranks"
        )
    alone = tf.control_dependencies(None)
    with tf.name_scope(f"{table.table_name}/"), tf.device(table.device), alone:
        first = table.before_save()
        with tf.control_dependencies([] if first is None else [first]):
            return ops.sok_export_planes(
                table.table_handle,
                num_slots=len(slots),
                slot_names=[slot.op.name for slot in slots],
                # Ordinary variables are saved by row id: the n-th key gets row id n when restored.
                rows_have_no_gaps=bool(ordinary_slots(table)),
            )


def ordinary_slots(table):
    """The graph's variables that an optimizer made for the table, not slot_for or a scope."""
    ours = {slot.ref() for slot in table.slots}
    return [
        variable
        for variable in tf.compat.v1.global_variables()
        if f"/{table.table_name}/" in f"/{variable.op.name}"  # before the search for its owner
        and variable.ref() not in ours
        and variable.shape.rank == 2
        and variable.shape[0] == table.capacity
        and not variable.trainable
        and owner_by_name(variable.op.name, [table]) is table
    ]
