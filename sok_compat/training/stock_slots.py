# SPDX-License-Identifier: Apache-2.0
"""Slots that stock optimizers make for tables whose scripts know no scope: planes, as in one; and
those of variables that are saved as tables are."""

import contextlib

import tensorflow as tf

from sok_compat.runtime import integrations
from sok_compat.runtime.strategies import around_slots
from sok_compat.runtime.tf_versions import NoDependency, forget_dependency
from sok_compat.tables.slot_variable import SlotVariable
from sok_compat.training.slot_creation import make_slot_or_variable

_apart = []  # of the optimizers whose slots are being made apart: the slots so far


def make_slots_as_planes():
    """Makes stock optimizers, from now on, make their slots for tables with `slots_are_planes` as
    planes of these tables.

    So each rank's slots have its own rows, and are saved with their table. Slots of variables with
    `noted_slots` are noted there.
    """
    integrations.when_there_are_tables(_change)


def _change():
    around_slots(_making_planes)


def has_slots_saved_with_it(variable):
    """Whether it is saved by another object than itself, with what optimizers keep for it."""
    return bool(getattr(variable, "saved_parts", ())) or hasattr(variable, "noted_slots")


@contextlib.contextmanager
def slots_apart(optimizer):
    """A context in which an optimizer of tf.keras.optimizers makes all its slots.

    By their numbers, checkpoints know all but those that are saved with the variables that they
    are of: these come last, and are nothing of the optimizer's in a checkpoint. Where the context
    ends with an exception, the optimizer has the variables that it had before.
    """
    numbered, made, apart = optimizer._variables, [], []
    optimizer.__dict__["_variables"] = made  # what the optimizer appends to
    _apart.append(apart)
    try:
        yield
    finally:
        _apart.pop()
        optimizer.__dict__["_variables"] = numbered
    is_apart = [any(each is slot for slot in apart) for each in made]
    numbered.extend(each for each, last in zip(made, is_apart) if not last)
    numbered.extend(NoDependency(each) for each, last in zip(made, is_apart) if last)
    for slots_of_kind in optimizer._trackable_children().values():
        for name, child in slots_of_kind._trackable_children().items():
            if any(child is slot for slot in apart):
                forget_dependency(slots_of_kind, name)


def _making_planes(variable):
    is_noted = hasattr(variable, "noted_slots")
    makes_planes = getattr(variable, "slots_are_planes", False)
    if not (is_noted or makes_planes or (_apart and has_slots_saved_with_it(variable))):
        return contextlib.nullcontext()

    def creator(next_creator, **kwargs):
        if makes_planes:
            slot = make_slot_or_variable([variable], next_creator, kwargs)
        else:
            slot = next_creator(**kwargs)
        if is_noted:
            variable.noted_slots.note(slot)
        if _apart and (isinstance(slot, SlotVariable) or _is_saved_with(variable, slot)):
            slot._serialize_to_tensors = dict  # nothing, also where a list of the optimizer has it
            _apart[-1].append(slot)
        return slot

    return tf.variable_creator_scope(creator)


def _is_saved_with(variable, slot):
    return hasattr(variable, "noted_slots") and slot.shape == variable.shape
