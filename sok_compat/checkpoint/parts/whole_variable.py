# SPDX-License-Identifier: Apache-2.0
"""`WholeVariable`: an ordinary variable, with its slots, in place of a table saved as parts."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from sok_compat.ranks.identity import Ranks
from sok_compat.runtime.tf_versions import var_is_initialized_op
from sok_compat.tables.stored.description import describe
from sok_compat.tables.stored.storage import Storage


class NotedSlots:
    """Keeps track of the slots that optimizers create for an ordinary variable.

    fill_slot: called with each slot that is created from now on, unless None.
    owner: as of a Storage.
    described: what an exported graph says of each slot, as of a Storage.
    """

    def __init__(self, owner: Any = None, described: Mapping[str, Any] | None = None) -> None:
        self.fill_slot: Callable[[tf.Variable], None] | None = None
        self.owner, self.described = owner, described
        self._known: list[weakref.ref] = []

    def note(self, slot: tf.Variable) -> None:
        """Adds a slot; its creator calls this."""
        if all(each is not slot for each in self.living()):
            self._known.append(weakref.ref(slot))
            if self.described is not None and hasattr(slot, "handle"):
                describe(slot.handle, self.described)
            if self.fill_slot is not None:
                self.fill_slot(slot)

    def living(self) -> list[tf.Variable]:
        """The slots that still exist, in the order of their creation."""
        return [slot for known in self._known if (slot := known()) is not None]


@dataclasses.dataclass(frozen=True, eq=False)
class WholeVariable:
    """An ordinary variable in place of a table. Each rank has all rows, and rank 0 saves them.

    variable: float32 [rows, columns]; it may have the attribute `noted_slots`, a NotedSlots.
    storage: the Storage, with its parts.
    ranks: the Ranks.
    """

    variable: tf.Variable
    storage: Storage
    ranks: Ranks

    @property
    def table_name(self) -> str:
        """The variable's name."""
        return self.variable.name.partition(":")[0]

    @property
    def handle(self) -> tf.Tensor:
        """The variable's handle."""
        return self.variable.handle

    @property
    def device(self) -> str:
        """The variable's device."""
        return self.variable.device

    @property
    def dim(self) -> int:
        """Number of columns."""
        return self.variable.shape.as_list()[1]

    @property
    def noted_slots(self) -> NotedSlots | None:
        """The variable's slots; None if they are not tracked."""
        return getattr(self.variable, "noted_slots", None)

    @property
    def slots(self) -> list[tf.Variable]:
        """Its slots that have its shape."""
        noted = [] if self.noted_slots is None else self.noted_slots.living()
        return [slot for slot in noted if slot.shape == self.variable.shape]

    def of_slot(self, slot: tf.Variable) -> WholeVariable:
        """The WholeVariable of one of its slots."""
        return WholeVariable(slot, self.storage, self.ranks)

    def before_save(self) -> None:
        """Returns no op: nothing is to run before it is saved."""

    def initialize_if_missing(self) -> tf.Operation:
        """Returns the op that sets it to zeros if it has no value; a restore fills it next."""
        variable = self.variable

        def make():
            return tf.group(variable.assign(tf.zeros(variable.shape), read_value=False))

        return tf.cond(var_is_initialized_op(variable.handle), tf.no_op, make)
