# SPDX-License-Identifier: Apache-2.0
"""Restores slots that an optimizer creates after its table was restored, in eager mode."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.streams.files_of_rank_0 import copy_at
from sok_compat.checkpoint.streams.stored_tensors import tensors_in
from sok_compat.runtime.op_library import ops
from sok_compat.tables.slots.slot_variable import SlotVariable
from sok_compat.tables.table import Table


class LateSlots:
    """A table's slots in a checkpoint, some of which do not exist yet in the program."""

    def __init__(self, table: Table, name: str, path: tf.Tensor) -> None:
        """Reads the slots' names; the path has a value."""
        # The table holds this object by its storage.fill_slot, so it is never dead here.
        self._table: Callable[[], Any] = weakref.ref(table)
        self._name, self._path = name, path.numpy().decode()
        self._copy = copy_at(self._path)  # keeps the files until then
        names = tensors_in(self._path)
        self._titles = {title for title in names if title.startswith(f"{name}/slots/")}
        self._taken: set[str] = set()

    def takes(self, title: str) -> bool:
        """Whether the checkpoint has this slot; if so, it counts as restored from now on."""
        if title in self._titles:
            self._taken.add(title)
        return title in self._titles

    def raise_for_missing(self, titles: Iterable[str]) -> None:
        """Raises tf.errors.NotFoundError if the checkpoint lacks one of these slots."""
        missing = sorted(set(titles) - self._titles)
        if missing:
            table = self._table()
            raise tf.errors.NotFoundError(
                None,
                None,
                f"the checkpoint {self._path} has no {missing} of the table {table.table_name}, "
                f"which an optimizer has made; its slots there: {sorted(self._titles) or 'none'}. "
                "To start slots afresh, restore before the optimizer has made them, or take keys "
                f"and rows alone: sok_compat.checkpoint.assign_from(table, {self._path!r}, "
                f"{self._name!r})",
            )

    def await_slots(self, title_of: Callable[[SlotVariable], str]) -> None:
        """Fills slots that are created from now on from the checkpoint, where they have these
        titles."""
        is_complete = self._taken == self._titles
        fill = None if is_complete else lambda slot: self._fill(slot, title_of(slot))
        self._table().storage.fill_slot = fill

    def _fill(self, slot, title):
        if not self.takes(title):
            logging.getLogger(__name__).warning(
                "%s starts afresh: the checkpoint %s, which the table was restored from, has only "
                "the slots %s", slot.name, self._path, sorted(self._titles),
            )  # fmt: skip
            return
        table = self._table()
        try:
            with tf.device(table.device):
                ops.sok_restore_slot(
                    table.table_handle,
                    self._path,
                    table_name=self._name,
                    title=title,
                    slot_name=slot.plane_name,
                )
        except tf.errors.InvalidArgumentError:  # it has another shape
            raise
        except tf.errors.OpError as error:
            raise tf.errors.DataLossError(
                None,
                None,
                f"{slot.name} cannot be filled from the checkpoint that its table was restored "
                f"from, which must stay until optimizers have made their slots: {error.message}",
            ) from error
