# SPDX-License-Identifier: Apache-2.0
"""A table and its slots as one object of a tf.train.Checkpoint."""

import collections
import gc
import re

import tensorflow as tf

from sok_compat.checkpoint.late_slots import LateSlots
from sok_compat.checkpoint.rows_saveable import RowsSaveable
from sok_compat.checkpoint.streamed_save import StreamedTable
from sok_compat.tables.slot_names import owner_by_name


class ObjectTable(StreamedTable):
    """As RowsSaveable, under the name that the object has: its slots are
    <name>/slots/<name of the slot, without the table's>.

    Restoring makes slots that the checkpoint has, and the optimizer has not made yet, hold theirs
    when it makes them, in eager mode.
    """

    def __init__(self, table, name):
        """Makes no ops.

        Raises:
          NotImplementedError: the table is saved in the layout of another system.
        """
        if table.saver_layout is not None:
            raise NotImplementedError(
                f"tf.train.Checkpoint does not save the table {table.table_name}, whose layout "
                "goes by names: use tf.train.Saver"
            )
        super().__init__(table, name)

    def description(self):
        """See the base class."""
        return self._as_rows(self._titles()).description()

    def save(self, checkpoint, tickets):
        """See the base class."""
        if any(title[-2:] == "_1" for title in self._titles().values()):
            gc.collect()  # of two optimizers of one kind the first may be nobody's
        return self._as_rows(self._titles()).save(checkpoint, tickets)

    def restore(self, restored_tensors, restored_shapes):
        """The op that fills the table."""
        titles, late = self._titles(), None
        if tf.executing_eagerly():
            late = LateSlots(self.table, self.name, self.path)
            titles = {slot: title for slot, title in titles.items() if late.takes(title)}
            late.raise_for_missing(self._titles().values())
        rows = self._as_rows(titles)
        rows.path, rows.restored = self.path, self.restored
        restored = rows.restore(restored_tensors, restored_shapes)
        if late is not None:
            late.await_slots(lambda slot: self._titles()[slot.ref()])
        return restored

    def _as_rows(self, titles):
        slots = [ref.deref() for ref in titles]
        return RowsSaveable(self.table, self.name, list(titles.values()), slots=slots)

    def _titles(self):
        """{reference to a slot: its name in the checkpoint}, of those that are there."""
        slots = self.table.living_slots()
        titles = short_titles(self.table, slots)
        return {slot.ref(): f"{self.name}/slots/{title}" for slot, title in zip(slots, titles)}


def short_titles(table, slots):
    """[name of a slot, without the table's]; a second one of a name has '_1' behind it."""
    titles, counts = [], collections.Counter()
    # Keras numbers slots of optimizers that are made again.
    of_table = re.compile(rf"/{re.escape(table.table_name)}(_\d+)?(?=/)")
    for slot in slots:
        name = slot.name.partition(":")[0]
        short = of_table.sub("", f"/{name}/", count=1).strip("/")
        number = counts[short]
        counts[short] += 1
        titles.append(short + (f"_{number}" if number else ""))
    return titles


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
