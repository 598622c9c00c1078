# SPDX-License-Identifier: Apache-2.0
"""Makes slots of stock optimizers as planes without a scope, and tracks slots saved with tables."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from sok_compat.runtime import integrations
from sok_compat.runtime.strategies import around_slots
from sok_compat.runtime.tf_versions import NoDependency, members
from sok_compat.tables.interface import TableInterface
from sok_compat.tables.rows.shown_rows import showing_some_rows
from sok_compat.tables.slots.slot_creation import make_slot_or_variable
from sok_compat.tables.slots.slot_variable import SlotVariable

# For each open `slots_apart`: the slots made so far that are saved with their variables.
_apart: list[list[tf.Variable]] = []


def make_slots_as_planes() -> None:
    """Makes the slots of stock optimizers planes, from now on.

    Each rank's slots then have its own rows, and are saved with their table. Slots of variables
    with `noted_slots` are registered there.
    """
    around_slots(_making_planes)
    integrations.apply("tf.compat.v1.train.Optimizer.apply_gradients", _with_slots_before)


def create_slots(optimizer: Any, variables: Sequence[tf.Variable]) -> None:
    """Creates an optimizer's slots, where it is one of tf.compat.v1.train, unless they exist."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(tf.init_scope())
        for table in filter(_has_unknown_rows, variables):
            stack.enter_context(showing_some_rows(table))
        members.create_slots(optimizer, variables)


def _has_unknown_rows(variable: tf.Variable) -> bool:
    """Whether it is a table whose number of rows optimizers must not see as they make slots."""
    is_table = isinstance(variable, TableInterface)
    is_grown = is_table and tf.compat.dimension_value(variable.shape[0]) is None
    return is_grown or (is_table and tf.executing_eagerly())


def _with_slots_before(apply_gradients: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(apply_gradients)
    def apply(self, grads_and_vars, *args, **kwargs):
        grads_and_vars = tuple(grads_and_vars)
        variables = [variable for gradient, variable in grads_and_vars if gradient is not None]
        if not any(map(_has_unknown_rows, variables)):
            return apply_gradients(self, grads_and_vars, *args, **kwargs)
        create_slots(self, variables)
        with members.without_creating_slots(self):
            return apply_gradients(self, grads_and_vars, *args, **kwargs)

    return apply


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
    makes_planes = isinstance(variable, TableInterface)
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
            members.save_nothing_of(slot)
            _apart[-1].append(slot)
        return slot

    return tf.variable_creator_scope(creator)


def _is_saved_with(variable: tf.Variable, slot: tf.Variable) -> bool:
    return hasattr(variable, "noted_slots") and slot.shape == variable.shape
