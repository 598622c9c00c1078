# SPDX-License-Identifier: Apache-2.0
"""Updates of tables by stock optimizers outside of sessions: to the rows that keys have then."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from sok_compat.runtime import integrations
from sok_compat.runtime.strategies import around_updates
from sok_compat.tables.rows.row_generations import have_generations, rows_of_gradient
from sok_compat.tables.rows.shown_rows import showing_all_rows


def update_rows_of_gradients() -> None:
    """Makes optimizers of Keras and of tf.compat.v1.train do so from now on."""
    around_updates(_of_strategy)
    integrations.apply("tf.compat.v1.train.Optimizer.apply_gradients, outside of graphs", _of_train)


def _of_strategy(table: Any, update: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps an update of a variable by its gradient, if it has one, and further arguments."""
    if not hasattr(table, "use_hash_index"):
        return update

    @functools.wraps(update)  # nested strategies wrap it again
    def update_rows(table, *args, **kwargs):
        if table.shows_rows():
            return update(table, *args, **kwargs)
        gradients = [rows_of_gradient(table, each) for each in args[:1]]
        with showing_all_rows(table):
            return update(table, *gradients, *args[1:], **kwargs)

    return update_rows


def _of_train(update: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(update)
    def update_op(self, optimizer, g):
        table = self.target()
        if not hasattr(table, "use_hash_index") or table.shows_rows():
            return update(self, optimizer, g)
        g = rows_of_gradient(table, g)
        with showing_all_rows(table) if have_generations() else contextlib.nullcontext():
            return update(self, optimizer, g)

    return update_op
