# SPDX-License-Identifier: Apache-2.0
"""`ObjectTable`: a table and its slots as one object of a tf.train.Checkpoint."""

from __future__ import annotations

import collections
import gc
import re
from collections.abc import Sequence

import tensorflow as tf

from sok_compat.checkpoint.parts.late_slots import LateSlots
from sok_compat.checkpoint.parts.rows_saveable import RowsSaveable
from sok_compat.checkpoint.parts.whole_variable import WholeVariable
from sok_compat.checkpoint.streams.streamed_save import StreamedTable
from sok_compat.tables.table import Table


def object_saveable(table: Table, name: str) -> StreamedTable:
    """The StreamedTable that saves a table in a tf.train.Checkpoint, in the table's layout.

    Raises:
      NotImplementedError: the table is a part of another, whose parts are saved under one name.
    """
    layout, part = table.storage.layout, table.storage.part
    if layout is None:
        return ObjectTable(table, name)
    if part is not None:
        raise NotImplementedError(
            f"tf.train.Checkpoint does not save {table.table_name}, part {part.index} of "
            f"{part.count} of a table: use tf.train.Saver, or no partitioner"
        )
    titles = short_titles(table, table.slots)
    return layout(table, name, [f"{name}/slots/{title}" for title in titles])


class ObjectTable(StreamedTable):
    """As RowsSaveable, under the object's name; slots are
    <name>/slots/<name of the slot, without the table's>.

    In eager mode, slots of the checkpoint that do not exist yet are restored when the optimizer
    creates them.
    """

    def description(self) -> str:
        return self._as_rows(self._titles()).description()

    def save(self, checkpoint: tf.Tensor, collectives: list[tf.Tensor]) -> tf.Operation:
        if any(title[-2:] == "_1" for title in self._titles().values()):
            gc.collect()  # of two optimizers of one kind, the first may be garbage
        return self._as_rows(self._titles()).save(checkpoint, collectives)

    def _planes(self):
        return self._as_rows(self._titles())._planes()

    def check(
        self, path: tf.Tensor, reads: tf.Tensor, collectives: list[tf.Tensor]
    ) -> tf.Operation | None:
        """See the base class. In eager mode, raises for slots that the checkpoint lacks."""
        titles = self._titles()
        if tf.executing_eagerly():
            late = LateSlots(self.table, self.name, path)
            late.raise_for_missing(titles.values())
        return self._as_rows(titles).check(path, reads, collectives)

    def restore_from_path(self) -> tf.Operation:
        """Returns the op that fills the table."""
        titles, late = self._titles(), None
        if tf.executing_eagerly():
            late = LateSlots(self.table, self.name, self.path)
            titles = {slot: title for slot, title in titles.items() if late.takes(title)}
            late.raise_for_missing(self._titles().values())
        rows = self._as_rows(titles)
        rows.path, rows.restored = self.path, self.restored
        restored = rows.restore_from_path()
        if late is not None:
            late.await_slots(lambda slot: self._titles()[slot.ref()])
        return restored

    def _as_rows(self, titles):
        slots = [ref.deref() for ref in titles]
        return RowsSaveable(self.table, self.name, list(titles.values()), slots=slots)

    def _titles(self):
        """{reference to an existing slot: its name in the checkpoint}."""
        slots = self.table.slots
        titles = short_titles(self.table, slots)
        return {slot.ref(): f"{self.name}/slots/{title}" for slot, title in zip(slots, titles)}


def short_titles(table: Table | WholeVariable, slots: Sequence[tf.Variable]) -> list[str]:
    """Names that an optimizer gives its slots, without the table's name and the scopes around it.

    They do not depend on the optimizer's own name. If another optimizer has a slot of the same
    name, that gets '_1' appended.
    """
    titles: list[str] = []
    counts: collections.Counter[str] = collections.Counter()
    # Keras numbers the slots of optimizers that are created again; Keras 3 has `_` for `/`.
    owner = re.escape(table.table_name).replace("/", "[/_]")
    of_table = re.compile(rf"(.*)/{owner}(_\d+)?[/_](.*)")
    for slot in slots:
        name = slot.name.partition(":")[0]
        around = of_table.fullmatch(f"/{name}/")
        before, _, behind = around.groups() if around else ("", "", name)
        short = behind.strip("/") or before.rpartition("/")[2]
        number = counts[short]
        counts[short] += 1
        titles.append(short + (f"_{number}" if number else ""))
    return titles
