# SPDX-License-Identifier: Apache-2.0
"""Stock optimizers that move only the rows of a step's gradients: Adam becomes lazy Adam.

Optimizers of tf.train and tf.keras.optimizers.legacy whose ops for sparse gradients touch these
rows only are applied as they are. Those that let all rows decay, and all of tf.keras.optimizers,
see a table that has these rows only (tables/rows/shown_rows.py). Their ops and numbers stay.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Any, Union

import tensorflow as tf

from sok_compat.runtime.tf_versions import has_keras_2, keras_optimizers, make_slots
from sok_compat.tables.rows.optimizer_updates import check_stock_optimizer
from sok_compat.tables.rows.row_generations import rows_of_gradient
from sok_compat.tables.rows.shown_rows import showing_all_rows, showing_rows_of
from sok_compat.tables.rows.whole_slots import scattering_by_variable, uses_whole_slots
from sok_compat.tables.slots.slot_variable import SlotVariable
from sok_compat.tables.slots.stock_slots import create_slots
from sok_compat.tables.table import Table
from sok_compat.training.update_scope import UpdateScope

Gradient = Union[tf.Tensor, tf.IndexedSlices]

_legacy: Any = keras_optimizers.legacy if has_keras_2 else None


def apply_to_rows_of_gradients(
    optimizer: Any, grads_and_vars: Sequence[tuple[Gradient, tf.Variable]], **kwargs: Any
) -> Any:
    """Returns the result of `optimizer.apply_gradients`, which moves only the gradients' rows of
    tables and their slots.

    Args:
      optimizer: of tf.train, tf.keras.optimizers.legacy or tf.keras.optimizers (not in graphs).
      grads_and_vars: gradients and variables, tables and others, each variable once.
      **kwargs: other arguments of apply_gradients.
    """
    variables = [variable for _, variable in grads_and_vars]
    tables = [variable for variable in variables if isinstance(variable, Table)]
    for gradient, variable in grads_and_vars:
        if isinstance(variable, Table) and not _calls_methods(optimizer, gradient):
            check_stock_optimizer(variable, optimizer, is_in_scope=True)
    make_slots_of_tables(optimizer, variables)
    grads_and_vars = [(rows_of_gradient(v, g), v) for g, v in grads_and_vars]
    with contextlib.ExitStack() as stack:
        if not (is_newer_keras(optimizer) or uses_whole_slots(optimizer)):
            stack.enter_context(UpdateScope(tables))
            for table in tables:
                stack.enter_context(showing_all_rows(table))
            return optimizer.apply_gradients(grads_and_vars, **kwargs)
        shown = []
        for gradient, variable in grads_and_vars:
            if isinstance(variable, Table):
                if isinstance(gradient, tf.IndexedSlices) or is_newer_keras(optimizer):
                    gradient = stack.enter_context(showing_rows_of(variable, gradient))
                else:  # these optimizers hand all rows to one op, by the variable's handle
                    stack.enter_context(UpdateScope([variable]))
            shown.append((gradient, variable))
        stack.enter_context(scattering_by_variable(optimizer))
        return optimizer.apply_gradients(shown, **kwargs)


def is_newer_keras(optimizer: Any) -> bool:
    """Whether it is an optimizer of tf.keras.optimizers, not of its `legacy`."""
    is_keras = has_keras_2 and isinstance(optimizer, keras_optimizers.Optimizer)
    return is_keras and not is_legacy_keras(optimizer)


def is_legacy_keras(optimizer: Any) -> bool:
    """Whether it is an optimizer of tf.keras.optimizers.legacy."""
    return has_keras_2 and isinstance(optimizer, _legacy.Optimizer)


def _calls_methods(optimizer: Any, gradient: Gradient) -> bool:
    """Whether an update of a table by such a gradient calls methods of the variable."""
    is_sparse = isinstance(gradient, tf.IndexedSlices)
    return is_newer_keras(optimizer) or (is_sparse and uses_whole_slots(optimizer))


def make_slots_of_tables(optimizer: Any, variables: Sequence[tf.Variable]) -> None:
    """Makes an optimizer's slots of variables, tables among them, unless they exist."""
    # Before a table shows the rows of a gradient: slots have those of the table.
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        create_slots(optimizer, variables)
        return
    with tf.init_scope():
        make_slots(optimizer, variables)


def slots_by_name(optimizer: Any, table: Table) -> dict[str, SlotVariable]:
    """Returns an optimizer's slots of a table, by its names.

    Raises:
      ValueError: the optimizer has slots, but not of this table.
    """
    if is_newer_keras(optimizer):
        all_slots = [each for each in optimizer.variables if isinstance(each, SlotVariable)]
        slots = [each for each in all_slots if each.table_handle is table.table_handle]
        found = {_name_by_newer_keras(slot, table): slot for slot in slots}
        is_complete = bool(slots) == bool(all_slots)
    else:
        names = optimizer.get_slot_names()
        found = {name: _slot_of(optimizer, table, name) for name in names}
        is_complete = all(isinstance(slot, SlotVariable) for slot in found.values())
    if not is_complete:
        raise ValueError(
            f"{table.name} has no slots of {type(optimizer).__name__} yet: apply gradients first, "
            "or leave it out"
        )
    return found


def _slot_of(optimizer: Any, table: Table, name: str) -> Any:
    try:
        return optimizer.get_slot(table, name)
    except KeyError:
        return None


def _name_by_newer_keras(slot: SlotVariable, table: Table) -> str:
    """'m' of 'scope/m/<table>_1:0'."""
    name = re.escape(table.table_name)
    return re.sub(rf"^(?:.*/)?([^/]+)/{name}(_\d+)?:0$", r"\1", slot.name)
