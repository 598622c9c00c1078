# SPDX-License-Identifier: Apache-2.0
"""tf.keras.optimizers on tables: their slots become planes, and updates apply to the rows in use.
Slots of Keras 3 are made elsewhere (keras_3_tables.py).

For eager mode and functions. These optimizers read a whole variable and its slots, and assign to
them, so a table and its slots show them only the rows in use (tables/rows/shown_rows.py). The ops,
their order and the numbers are those of an ordinary variable with these rows.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.runtime import integrations
from sok_compat.runtime.strategies import around_updates
from sok_compat.runtime.tf_versions import (
    has_keras_2,
    keras_3_of_scripts,
    keras_optimizers,
    members,
)
from sok_compat.tables.interface import TableInterface
from sok_compat.tables.rows.optimizer_updates import maker_of
from sok_compat.tables.rows.row_generations import rows_of_gradient
from sok_compat.tables.rows.row_ids import rows_are_distinct
from sok_compat.tables.rows.shown_rows import showing_rows_in_use, showing_some_rows
from sok_compat.tables.slots.keras_3_tables import adapt_optimizers_of_keras_3, check_optimizer
from sok_compat.tables.slots.slot_creation import (
    make_slot_or_variable,
    raise_for_average,
    raise_for_slot,
)
from sok_compat.tables.slots.slot_names import is_of_another, owner_by_name
from sok_compat.tables.slots.slot_variable import SlotVariable
from sok_compat.tables.slots.stock_slots import has_slots_saved_with_it, slots_apart

# {optimizer: unique ids of tables with planes as slots}
_tables_of: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def update_rows_in_use_in_keras() -> None:
    """Makes tf.keras.optimizers update only the rows in use of tables, from now on."""
    if has_keras_2:
        integrations.apply("tf.keras.optimizers.Optimizer.build", _making_planes)
    if keras_3_of_scripts is not None:
        adapt_optimizers_of_keras_3()
    around_updates(_of_rows_in_use)


def _making_planes(build: Callable[..., Any]) -> Callable[..., Any]:
    """Every optimizer's `build` calls the base class first, and returns if it is built."""

    @functools.wraps(build)
    def build_with_planes(self, var_list):
        tables = [variable for variable in var_list if isinstance(variable, TableInterface)]
        are_plain = not tables and not any(map(has_slots_saved_with_it, var_list))
        if not tf.executing_eagerly():
            for table in tables:
                if table.capacity is None:  # Keras's error, of unknown shapes, would not tell
                    _raise_in_graph(table)
        if self in _tables_of or are_plain or not tf.executing_eagerly():
            return build(self, var_list)
        _tables_of[self] = set()  # the build below calls this again
        # Variables whose slots checkpoints number come first, as another plan has other tables.
        var_list = sorted(var_list, key=has_slots_saved_with_it)
        with slots_apart(self):
            _build_planes(self, var_list)
        _tables_of[self] = {members.unique_id(table) for table in tables}
        if tables:
            self.jit_compile = False  # True by default with a GPU, but XLA does not know tables
        return None

    return build_with_planes


def _build_planes(optimizer: Any, var_list: Sequence[tf.Variable]) -> None:
    with contextlib.ExitStack() as stack:
        for variable in var_list:
            if isinstance(variable, TableInterface):
                stack.enter_context(showing_some_rows(variable))
        stack.enter_context(tf.variable_creator_scope(functools.partial(_make_variable, var_list)))
        optimizer.build(var_list)


def _make_variable(
    var_list: Sequence[tf.Variable], next_creator: Callable[..., Any], **kwargs: Any
) -> tf.Variable:
    average_of = kwargs.get("initial_value")
    if isinstance(average_of, TableInterface):
        raise_for_average(average_of)
    table = _owner(kwargs.get("name") or "", var_list)
    if table is None:
        return next_creator(**kwargs)
    variable = make_slot_or_variable([table], next_creator, kwargs)
    if isinstance(variable, SlotVariable) or not variable.shape.rank:
        return variable
    has_rows = variable.shape[0] in (table.shape[0], table.capacity)
    if has_rows and average_of is not table:
        raise_for_slot(table, variable.name)
    return variable


def _owner(name: str, var_list: Sequence[tf.Variable]) -> TableInterface | None:
    """The table whose slot a variable is by its name; None for one of an ordinary variable."""
    table = owner_by_name(name, [each for each in var_list if isinstance(each, TableInterface)])
    return None if table is None or is_of_another(name, table, var_list) else table


def _is_of_keras_3(optimizer: Any) -> bool:
    keras = keras_3_of_scripts
    return keras is not None and isinstance(optimizer, keras.optimizers.Optimizer)


def _has_planes(optimizer: Any, variable: tf.Variable) -> bool:
    return isinstance(variable, TableInterface) and (
        _is_of_keras_3(optimizer) or members.unique_id(variable) in _tables_of.get(optimizer, ())
    )


def _of_rows_in_use(table: TableInterface, update: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps an update so that it applies to the shown rows, if one of these optimizers made it.

    Args:
      update: a function of the variable and, except for weight decay, its gradient; in Keras 3
        then of the learning rate.
    """
    optimizer = _optimizer_of(update)
    if optimizer is not None:
        _raise_in_graph(table)
    is_by_rows = optimizer is not None and _has_planes(optimizer, table)
    if is_by_rows and _is_of_keras_3(optimizer):
        check_optimizer(optimizer, table)

    @functools.wraps(update)  # nested strategies wrap it again
    def update_rows(table, *args, **kwargs):
        if table.shows_rows() or not is_by_rows:
            return update(table, *args, **kwargs)
        gradients, others = args[:1], args[1:]
        if any(_updates_rows_of_batch(optimizer, gradient) for gradient in gradients):
            return update(table, *args, **kwargs)
        gradients = [rows_of_gradient(table, gradient) for gradient in gradients]
        if _is_of_keras_3(optimizer):
            gradients = list(map(_with_distinct_rows, gradients))
        with showing_rows_in_use(table) as rows:
            return update(table, *map(rows.localized, gradients), *others, **kwargs)

    return update_rows


def _raise_in_graph(table: TableInterface) -> None:
    """Raises NotImplementedError, unless in eager mode or a function."""
    if tf.executing_eagerly() or tf.compat.v1.get_default_graph().building_function:
        return
    other = (
        "of the same name in tf.keras.optimizers.legacy" if has_keras_2 else "of tf.compat.v1.train"
    )
    in_function = "" if table.capacity is None else ", or call apply_gradients in a tf.function"
    raise NotImplementedError(
        f"the table {table.name} cannot be trained by this optimizer of tf.keras.optimizers: those "
        "do not work in graph mode (apply_gradients counts a step and updates nothing); take the "
        f"one {other}{in_function}"
    )


def _optimizer_of(update):
    """Returns the Keras optimizer whose method made a function, or None."""
    maker = maker_of(update)
    is_of_keras_2 = has_keras_2 and isinstance(maker, keras_optimizers.Optimizer)
    return maker if is_of_keras_2 or _is_of_keras_3(maker) else None


@tf.autograph.experimental.do_not_convert
def _with_distinct_rows(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
    """Adds up slices of the same row, as of two lookups: Keras 2 does so, Keras 3 squares each."""
    if not isinstance(gradient, tf.IndexedSlices) or rows_are_distinct(gradient.indices):
        return gradient
    row_ids, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(row_ids))
    return tf.IndexedSlices(values, row_ids, gradient.dense_shape)


@tf.autograph.experimental.do_not_convert
def _updates_rows_of_batch(optimizer: Any, gradient: tf.Tensor | tf.IndexedSlices) -> bool:
    """Whether the update touches only the gradient's rows, as Adagrad with sparse gradients."""
    if _is_of_keras_3(optimizer):
        return False
    is_adagrad = type(optimizer).update_step is keras_optimizers.Adagrad.update_step
    return is_adagrad and isinstance(gradient, tf.IndexedSlices)
