# SPDX-License-Identifier: Apache-2.0
"""Ordinary variables in the place of tables that are saved as parts, and the slots of these."""

import dataclasses
import weakref

import tensorflow as tf

from sok_compat.runtime.ranks import Ranks
from sok_compat.runtime.tf_versions import var_is_initialized_op


class NotedSlots:
    """The slots that optimizers make for an ordinary variable, which does not know them.

    fill_slot: None, or a function of a slot that is made from now on.
    """

    def __init__(self):
        self.fill_slot = None
        self._known = []

    def note(self, slot):
        """For whoever makes a slot of the variable."""
        if all(each is not slot for each in self.living()):
            self._known.append(weakref.ref(slot))
            if self.fill_slot is not None:
                self.fill_slot(slot)

    def living(self):
        """Those that are there, in the order in which they were made."""
        return [slot for known in self._known if (slot := known()) is not None]


@dataclasses.dataclass(frozen=True, eq=False)
class WholeVariable:
    """An ordinary variable in the place of a table, of which each rank has all: rank 0 saves it.

    variable: float32 [rows, columns]; its `noted_slots`, if it has any, are NotedSlots.
    saved_parts: as of a Table.
    ranks: the Ranks.
    """

    variable: tf.Variable
    saved_parts: tuple
    ranks: Ranks

    @property
    def table_name(self):
        """Of the variable."""
        return self.variable.name.partition(":")[0]

    @property
    def handle(self):
        """Of the variable."""
        return self.variable.handle

    @property
    def device(self):
        """Of the variable."""
        return self.variable.device

    @property
    def dim(self):
        """Columns."""
        return self.variable.shape[1]

    @property
    def noted_slots(self):
        """NotedSlots; None: nobody notes its slots."""
        return getattr(self.variable, "noted_slots", None)

    def living_slots(self):
        """Its slots of its own shape, as variables."""
        noted = [] if self.noted_slots is None else self.noted_slots.living()
        return [slot for slot in noted if slot.shape == self.variable.shape]

    def of_slot(self, slot):
        """The same of one of its slots."""
        return WholeVariable(slot, self.saved_parts, self.ranks)

    def before_save(self):
        """Nothing is to be done."""

    def initialize_if_missing(self):
        """An op that makes it, unless it is there: all of it is about to be written."""
        variable = self.variable

        def make():
            return tf.group(variable.assign(tf.zeros(variable.shape), read_value=False))

        return tf.cond(var_is_initialized_op(variable.handle), tf.no_op, make)
