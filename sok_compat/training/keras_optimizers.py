# SPDX-License-Identifier: Apache-2.0
"""The optimizers of tf.keras.optimizers on tables: their slots are planes, and what they compute
on whole variables they compute on the rows in use.

In eager mode and functions. They read a variable and its slots, and assign to them, so a table and
its slots show them the rows in use alone (tables/shown_rows.py): by the same ops, in the same
order, with the same numbers as on an ordinary variable that has these rows.
"""

import contextlib
import functools
import inspect
import weakref

import tensorflow as tf

from sok_compat.runtime import integrations
from sok_compat.runtime.strategies import around_updates
from sok_compat.runtime.tf_versions import keras
from sok_compat.tables.rows.shown_rows import showing_rows_in_use, showing_some_rows
from sok_compat.tables.slot_names import owner_by_name
from sok_compat.tables.slot_variable import SlotVariable
from sok_compat.tables.table import Table
from sok_compat.training.slot_creation import make_slot_or_variable
from sok_compat.training.stock_slots import has_slots_saved_with_it, slots_apart

_tables_of = weakref.WeakKeyDictionary()  # {optimizer: unique ids of tables with planes as slots}


def update_rows_in_use_in_keras():
    """Makes the optimizers of tf.keras.optimizers cost a table's rows in use, from now on."""
    integrations.when_there_are_tables(_change)


def _change():
    integrations.apply("tf.keras.optimizers.Optimizer.build", _making_planes)
    around_updates(_of_rows_in_use)


class _NoPlaneError(Exception):
    """A slot that starts as anything but a constant fill, which no plane can."""


def _making_planes(build):
    """Every optimizer's build calls that of the base class first, and returns if it is built."""

    @functools.wraps(build)
    def build_with_planes(self, var_list):
        tables = [variable for variable in var_list if isinstance(variable, Table)]
        are_plain = not tables and not any(map(has_slots_saved_with_it, var_list))
        if self in _tables_of or are_plain or not tf.executing_eagerly():
            return build(self, var_list)
        _tables_of[self] = set()  # the build below comes here again
        # Other plans have other tables: what checkpoints number comes first.
        var_list = sorted(var_list, key=has_slots_saved_with_it)
        try:
            with slots_apart(self):
                _build_planes(self, var_list, tables)
        except _NoPlaneError:
            self._built = False
            return build(self, var_list)
        _tables_of[self] = {table._unique_id for table in tables}
        if tables:
            self.jit_compile = False  # which is True where there is a GPU; XLA knows no tables
        return None

    return build_with_planes


def _build_planes(optimizer, var_list, tables):
    with contextlib.ExitStack() as stack:
        for table in tables:
            stack.enter_context(showing_some_rows(table))
        stack.enter_context(tf.variable_creator_scope(functools.partial(_make_variable, tables)))
        optimizer.build(var_list)


def _make_variable(tables, next_creator, **kwargs):
    variable = make_slot_or_variable(tables, next_creator, kwargs)
    table = owner_by_name(kwargs.get("name") or "", tables)
    if table is None or isinstance(variable, SlotVariable) or not variable.shape.rank:
        return variable
    has_rows = variable.shape[0] in (table.shape[0], table.capacity)
    is_average = kwargs.get("initial_value") is table  # no update computes with it
    if has_rows and not is_average:
        raise _NoPlaneError
    return variable


def _is_by_rows(optimizer, variable):
    return (
        optimizer is not None
        and isinstance(variable, Table)
        and variable._unique_id in _tables_of.get(optimizer, ())
    )


def _of_rows_in_use(table, update):
    """An update, where it is one of these optimizers, on what the table shows.

    Args:
      table: the Table, or any other variable.
      update: a function of it and, but for a decay of weights, its gradient.
    """
    optimizer = _optimizer_of(update)
    if not _is_by_rows(optimizer, table):
        return update

    def update_rows_in_use(table, *gradients):
        if any(_updates_rows_of_batch(optimizer, each) for each in gradients):
            return update(table, *gradients)
        with showing_rows_in_use(table) as rows:
            return update(table, *map(rows.localized, gradients))

    return update_rows_in_use


def _optimizer_of(update):
    """The one whose method has made the function; None: that is not known, or another's."""
    function = inspect.unwrap(update)
    if not inspect.isfunction(function) or "self" not in function.__code__.co_freevars:
        return None
    maker = function.__closure__[function.__code__.co_freevars.index("self")].cell_contents
    return maker if isinstance(maker, keras.optimizers.Optimizer) else None


def _updates_rows_of_batch(optimizer, gradient):
    """Adagrad does, of a sparse gradient."""
    is_adagrad = type(optimizer).update_step is keras.optimizers.Adagrad.update_step
    return is_adagrad and isinstance(gradient, tf.IndexedSlices)
