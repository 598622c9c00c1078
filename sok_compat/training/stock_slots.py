# SPDX-License-Identifier: Apache-2.0
"""Makes slots of stock optimizers as planes without a scope, and tracks slots saved with tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from sok_compat.runtime import integrations
from sok_compat.runtime.strategies import around_slots
from sok_compat.runtime.tf_versions import NoDependency, members
from sok_compat.tables.declared_capacity import warn_of_declared_capacity
from sok_compat.tables.slots.slot_variable import SlotVariable
from sok_compat.tables.table import Table
from sok_compat.training.slot_creation import make_slot_or_variable

# For each open `slots_apart`: the slots made so far that are saved with their variables.
_apart: list[list[tf.Variable]] = []


def make_slots_as_planes() -> None:
    """Makes the slots of stock optimizers planes, from now on.

    Each rank's slots then have its own rows, and are saved with their table. Slots of variables
    with `noted_slots` are registered there.
    """
    integrations.when_there_are_tables(_change)


def _change() -> None:
    around_slots(_making_planes)


def has_slots_saved_with_it(variable: tf.Variable) -> bool:
    """Whether another object saves a variable together with its slots."""
    storage = getattr(variable, "storage", None)
    return bool(storage and storage.parts) or hasattr(variable, "noted_slots")


@contextlib.contextmanager
def slots_apart(optimizer: Any) -> Iterator[None]:
    """Context in which an optimizer of tf.keras.optimizers makes all its slots.

    Checkpoints identify an optimizer's variables by number. Slots that are saved with their
    variables come last, and are no dependencies of the optimizer. After an exception, the
    optimizer has its earlier variables.
    """
    apart: list[tf.Variable] = []
    with members.new_variables_of(optimizer) as (numbered, made):
        _apart.append(apart)
        try:
            yield
        finally:
            _apart.pop()
    is_apart = [any(each is slot for slot in apart) for each in made]
    numbered.extend(each for each, last in zip(made, is_apart) if not last)
    numbered.extend(NoDependency(each) for each, last in zip(made, is_apart) if last)
    for slots_of_kind in members.children(optimizer).values():
        for name, child in members.children(slots_of_kind).items():
            if any(child is slot for slot in apart):
                members.forget_dependency(slots_of_kind, name)


def _making_planes(variable: tf.Variable) -> AbstractContextManager[Any]:
    is_noted = hasattr(variable, "noted_slots")
    makes_planes = isinstance(variable, Table)
    if not (is_noted or makes_planes or (_apart and has_slots_saved_with_it(variable))):
        return contextlib.nullcontext()

    def creator(next_creator, **kwargs):
        if makes_planes:
            slot = make_slot_or_variable([variable], next_creator, kwargs)
            if not isinstance(slot, SlotVariable) and slot.shape == variable.shape:
                warn_of_declared_capacity(
                    slot.name,
                    slot.shape,
                    "does not start as one number, and so takes memory for all rows that the table "
                    "declares: start it as a constant",
                )
        else:
            slot = next_creator(**kwargs)
        if is_noted:
            variable.noted_slots.note(slot)
        if _apart and (isinstance(slot, SlotVariable) or _is_saved_with(variable, slot)):
            members.save_nothing_of(slot)
            _apart[-1].append(slot)
        return slot

    return tf.variable_creator_scope(creator)


def _is_saved_with(variable: tf.Variable, slot: tf.Variable) -> bool:
    return hasattr(variable, "noted_slots") and slot.shape == variable.shape
