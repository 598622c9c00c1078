# SPDX-License-Identifier: Apache-2.0
"""Updates of tables by stock optimizers outside of sessions: to the rows that keys have then."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any, NoReturn

import tensorflow as tf

from sok_compat.runtime import integrations
from sok_compat.runtime.strategies import around_updates
from sok_compat.runtime.tf_versions import members
from sok_compat.tables.interface import TableInterface
from sok_compat.tables.rows.row_generations import rows_of_gradient
from sok_compat.tables.rows.row_scatters import scatter_rows
from sok_compat.tables.rows.shown_rows import is_showing_some_rows, showing_all_rows
from sok_compat.tables.rows.whole_slots import has_rules, is_rewritten, showing_rows_to_update


def update_rows_of_gradients() -> None:
    """Makes optimizers of Keras and of tf.compat.v1.train do so from now on."""
    around_updates(_of_strategy)
    integrations.apply("tf.compat.v1.train.Optimizer.apply_gradients, outside of graphs", _of_train)


def raise_for_stock_update(table: TableInterface, updater: str) -> NoReturn:
    """Raises NotImplementedError: `updater` would update a table's rows of two bytes."""
    raise NotImplementedError(
        f"{updater} of TensorFlow cannot update the table {table.table_name}, whose rows are "
        f"{table.row_dtype.name}: in a graph, call apply_gradients of gradient descent, Momentum, "
        "Adagrad, RMSProp, Ftrl or (with sparse gradients) Adam in sok_compat.OptimizerScope("
        "[table]); else use an optimizer of sok_compat or, in eager mode, of "
        "tf.keras.optimizers; or make the table with row_dtype=tf.float32"
    )


def check_stock_optimizer(table: TableInterface, optimizer: Any, is_in_scope: bool = False) -> None:
    """Raises NotImplementedError for an optimizer that hands a table's rows of two bytes to an op.

    Optimizers with rules for tables of the `table_type` do not, nor those that call methods of the
    variable. In a scope in a graph, ops are replaced when it ends (training/rows_in_use.py), but
    not those in a function or a branch.
    """
    if table.row_dtype == tf.float32 or optimizer is None or hasattr(optimizer, "update_step"):
        return
    if not has_rules(optimizer, table) and not is_rewritten(table, is_in_scope):
        raise_for_stock_update(table, type(optimizer).__name__)


@contextlib.contextmanager
def _raising_for_scatters(table, optimizer):
    """In place of TensorFlow's error where an optimizer's scatter gets rows of two bytes: those of
    tf.keras.optimizers.legacy call them, whatever the variable is."""
    try:
        yield
    except ValueError as error:
        if table.row_dtype == tf.float32 or "wrong dtype" not in str(error):
            raise
        raise_for_stock_update(table, type(optimizer).__name__)


def maker_of(update: Callable[..., Any]) -> Any:
    """Returns the object whose method made a function, or None."""
    function = inspect.unwrap(update)
    if not inspect.isfunction(function) or "self" not in function.__code__.co_freevars:
        return None
    place = function.__code__.co_freevars.index("self")
    return (function.__closure__ or ())[place].cell_contents


def _of_strategy(table: TableInterface, update: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps an update of a variable by its gradient, if it has one, and further arguments."""
    if not hasattr(table, "use_hash_index"):
        return update

    @functools.wraps(update)  # nested strategies wrap it again
    def update_rows(table, *args, **kwargs):
        optimizer = maker_of(update)
        # Some rows alone, which keep no numbers: legacy optimizers are in the context of new slots.
        if table.shows_rows() and not is_showing_some_rows(table):
            with _raising_for_scatters(table, optimizer):
                return update(table, *args, **kwargs)
        check_stock_optimizer(table, optimizer)
        if not args:  # weight decay of tf.keras.optimizers
            with showing_all_rows(table):
                return update(table, **kwargs)
        gradient = rows_of_gradient(table, args[0])
        showing = showing_rows_to_update(table, optimizer, gradient)
        with _raising_for_scatters(table, optimizer), showing as gradient:
            return update(table, gradient, *args[1:], **kwargs)

    return update_rows


def _of_train(update: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(update)
    def update_op(self, optimizer, g):
        table = self.target()
        if not hasattr(table, "use_hash_index"):
            return update(self, optimizer, g)
        are_rows = table.shows_rows()
        is_descent = type(optimizer) is tf.compat.v1.train.GradientDescentOptimizer
        if is_descent and table.row_dtype != tf.float32 and isinstance(g, tf.IndexedSlices):
            g = g if are_rows else rows_of_gradient(table, g)
            rate = tf.cast(members.learning_rate_tensor(optimizer), tf.float32)
            return scatter_rows(table, "sub", g.indices, rate * g.values) or tf.no_op()
        if are_rows:
            return update(self, optimizer, g)
        check_stock_optimizer(table, optimizer)
        with showing_rows_to_update(table, optimizer, rows_of_gradient(table, g)) as g:
            return update(self, optimizer, g)

    return update_op
