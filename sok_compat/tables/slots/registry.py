# SPDX-License-Identifier: Apache-2.0
"""`slot_for`: the planes that hold an optimizer's state of a table."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sok_compat.tables.interface import TableInterface
from sok_compat.tables.slots.slot_variable import SlotVariable


class Slots:
    """The slots of one table, and those that `slot_for` has made by their owners and names.

    A graph keeps its slots; in eager mode a slot is freed with its owner.
    """

    def __init__(self) -> None:
        self._made: list[Callable[[], SlotVariable | None]] = []  # oldest first
        self._of_names: dict[str, dict[str, SlotVariable]] = {}  # of owners that are strings
        self._of_objects: weakref.WeakKeyDictionary[Any, dict[str, SlotVariable]] = (
            weakref.WeakKeyDictionary()
        )

    def add(self, slot: SlotVariable) -> None:
        """Registers a slot that has just been made."""
        self._made.append(weakref.ref(slot) if tf.executing_eagerly() else lambda: slot)

    def existing(self) -> list[SlotVariable]:
        """Returns the slots, oldest first."""
        found = [(made, slot) for made in self._made if (slot := made()) is not None]
        self._made = [made for made, _ in found]
        return [slot for _, slot in found]

    def of(self, owner: Any) -> dict[str, SlotVariable]:
        """Returns the slots of an owner by name."""
        slots: Any = self._of_names if isinstance(owner, str) else self._of_objects
        return slots.setdefault(owner, {})


def slot_for(
    table: TableInterface, optimizer: Any, name: str, width: int | None = None, fill: float = 0.0
) -> SlotVariable:
    """Returns the plane of an optimizer and a name beside a table's rows; the first call makes it.

    It lives as long as the table and the optimizer. Its name in checkpoints is
    '<table_name>/<name>', made unique.

    Args:
      optimizer: the owner: an object, compared by identity, or a string.
      name: which of the optimizer's slots.
      width: floats in a row of the slot; None: the table's dim.
      fill: initial value of the slot's rows.

    Returns:
      The SlotVariable, float32 [capacity, width]; [None, width] if the table has no capacity.

    Raises:
      ValueError: the slot was made with another width or fill.
    """
    width = table.dim if width is None else width
    slots = table.slots_by_owner.of(optimizer)
    if name not in slots:
        with tf.name_scope(""):  # beside the table, wherever this is called
            slots[name] = SlotVariable(table, f"{table.table_name}/{name}", width, float(fill))
    slot = slots[name]
    if (slot.width, slot.fill) != (width, float(fill)):
        raise ValueError(
            f"the slot {slot.name} was made with width {slot.width} and fill {slot.fill}, but "
            f"slot_for got width {width} and fill {float(fill)}"
        )
    return slot
