# SPDX-License-Identifier: Apache-2.0
"""Slots that stock optimizers make for tables whose scripts know no scope: planes, as in one; and
those of variables that are saved as tables are."""

import contextlib
import functools

import tensorflow as tf

from sok_compat.runtime import integrations
from sok_compat.training.slot_creation import make_slot_or_variable


def make_slots_as_planes():
    """Makes the optimizers of tf.keras.optimizers.legacy and tf.compat.v1.train, from now on, make
    their slots for tables with `slots_are_planes` as planes of these tables.

    So each rank's slots have its own rows, and are saved with their table. Slots of variables with
    `noted_slots` are noted there, also those of tf.keras.optimizers.
    """
    integrations.apply("tf.keras.optimizers.legacy.Optimizer.add_slot", _in_add_slot)
    integrations.apply("tf.compat.v1.train.Optimizer, slots", _in_create_slot)
    integrations.apply("tf.keras.optimizers.Optimizer.add_variable_from_reference", _noting_slots)


def _in_add_slot(add_slot):
    @functools.wraps(add_slot)
    def add_plane(self, var, *args, **kwargs):
        with _making_planes(var):
            return _noted(var, add_slot(self, var, *args, **kwargs))

    return add_plane


def _in_create_slot(create_slot):
    @functools.wraps(create_slot)
    def create_plane(primary, *args, **kwargs):
        with _making_planes(primary):
            return _noted(primary, create_slot(primary, *args, **kwargs))

    return create_plane


def _noting_slots(add_variable):
    @functools.wraps(add_variable)
    def add_noted_variable(self, model_variable, *args, **kwargs):
        return _noted(model_variable, add_variable(self, model_variable, *args, **kwargs))

    return add_noted_variable


def _making_planes(variable):
    if not getattr(variable, "slots_are_planes", False):
        return contextlib.nullcontext()

    def creator(next_creator, **kwargs):
        return make_slot_or_variable([variable], next_creator, kwargs)

    return tf.variable_creator_scope(creator)


def _noted(variable, slot):
    if hasattr(variable, "noted_slots"):
        variable.noted_slots.note(slot)
    return slot
