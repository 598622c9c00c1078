# SPDX-License-Identifier: Apache-2.0
"""`slot_for`: the planes in which an optimizer keeps its state of a table."""

import weakref

import tensorflow as tf

from sok_compat.tables.slot_variable import SlotVariable


class AskedSlots:
    """Those that were asked for, of one table: {optimizer: {name: SlotVariable}}."""

    def __init__(self):
        self._by_name = {}  # of optimizers that are strings
        self._by_object = weakref.WeakKeyDictionary()  # a slot goes with its optimizer

    def of(self, optimizer):
        slots = self._by_name if isinstance(optimizer, str) else self._by_object
        return slots.setdefault(optimizer, {})


def slot_for(table, optimizer, name, width=None, fill=0.0):
    """The plane of that optimizer and name beside a table's rows; made when first asked for.

    It lives as long as the table and the optimizer. Its own name, by which checkpoints know it, is
    '<table_name>/<name>', made unique.

    Args:
      table: the Table.
      optimizer: whose it is: an object, told from others by identity, or a string.
      name: which of the optimizer's slots.
      width: floats in a row of the slot; None: the table's dim.
      fill: what a row of the slot holds when its key comes.

    Returns:
      The SlotVariable, float32 [capacity, width], or [None, width] of a table without a capacity.

    Raises:
      ValueError: it was made with another width or fill.
    """
    width = table.dim if width is None else width
    slots = table.asked_slots.of(optimizer)
    if name not in slots:
        with tf.name_scope(""):  # beside the table, wherever this is called
            slots[name] = SlotVariable(table, f"{table.table_name}/{name}", width, float(fill))
    slot = slots[name]
    if (slot.width, slot.fill) != (width, float(fill)):
        raise ValueError(
            f"the slot {slot.name} was made with width {slot.width} and fill {slot.fill}, and is "
            f"asked for with width {width} and fill {float(fill)}"
        )
    return slot
