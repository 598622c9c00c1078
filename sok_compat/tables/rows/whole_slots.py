# SPDX-License-Identifier: Apache-2.0
"""Stock optimizers whose sparse updates use whole slots, as Adam, which lets them decay: of
tf.compat.v1.train and tf.keras.optimizers.legacy. They are shown the rows in use."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from sok_compat.runtime.tf_versions import has_keras_2, keras_optimizers, members
from sok_compat.tables.interface import TableInterface
from sok_compat.tables.plane_variable import PlaneVariable
from sok_compat.tables.rows.shown_rows import showing_all_rows, showing_rows_in_use

_legacy: Any = keras_optimizers.legacy if has_keras_2 else None
_SCATTERS = ("_resource_scatter_add", "_resource_scatter_update")  # methods of optimizers


def uses_whole_slots(optimizer: Any) -> bool:
    """Whether an optimizer is one of these, by its update for sparse gradients."""
    if members.updates_sparsely_as(optimizer, tf.compat.v1.train.AdamOptimizer):
        return True
    if not has_keras_2:
        return False
    if members.updates_sparsely_as(optimizer, _legacy.RMSprop):
        return not members.has_momentum(optimizer)
    return members.updates_sparsely_as(optimizer, _legacy.Adam, _legacy.Adamax, _legacy.Nadam)


@contextlib.contextmanager
def showing_rows_to_update(
    table: TableInterface, optimizer: Any, gradient: tf.Tensor | tf.IndexedSlices
) -> Iterator[tf.Tensor | tf.IndexedSlices]:
    """Context in which an optimizer updates a table: one that uses whole slots sees the rows in
    use, all others see all rows, by their ids. Yields the gradient of the shown rows."""
    is_sparse = isinstance(gradient, tf.IndexedSlices) and not has_rules(optimizer, table)
    if not is_sparse or is_rewritten(table) or not uses_whole_slots(optimizer):
        with showing_all_rows(table):
            yield gradient
        return
    with contextlib.ExitStack() as stack:
        with tf.control_dependencies([gradient.indices]):  # of keys that this step brings
            rows = stack.enter_context(showing_rows_in_use(table))
        stack.enter_context(scattering_by_variable(optimizer))
        yield rows.localized(gradient)


def has_rules(optimizer: Any, table: TableInterface) -> bool:
    """Whether an optimizer has rules for tables of the `table_type`, this one among them."""
    return isinstance(table, getattr(optimizer, "table_type", ()))


def is_rewritten(table: TableInterface, will_be_in_scope: bool = False) -> bool:
    """Whether a scope will replace ops that update the table when it ends: in a graph, but not in a
    function or a branch (training/rows_in_use.py)."""
    is_in_graph = not tf.compat.v1.get_default_graph().building_function
    is_in_scope = will_be_in_scope or table.num_scopes > 0
    return is_in_scope and is_in_graph and not tf.executing_eagerly()


@contextlib.contextmanager
def scattering_by_variable(optimizer: Any) -> Iterator[None]:
    """Context in which an optimizer scatters by methods of the variable, not by its handle, so that
    it scatters to the rows that this shows."""
    own = {name: getattr(optimizer, name) for name in _SCATTERS if hasattr(optimizer, name)}
    optimizer.__dict__.update({name: _by_variable(name, own[name]) for name in own})
    try:
        yield
    finally:
        for name in own:
            del optimizer.__dict__[name]


def _by_variable(name: str, by_handle: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    def scatter(x, i, v):
        if not (isinstance(x, PlaneVariable) and x.shows_rows_in_use()):
            return by_handle(x, i, v)
        method = x.scatter_add if name == "_resource_scatter_add" else x.scatter_update
        done = method(tf.IndexedSlices(v, i))
        with tf.control_dependencies([] if tf.executing_eagerly() else [done]):
            return x.value()

    return scatter
