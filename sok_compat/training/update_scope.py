# SPDX-License-Identifier: Apache-2.0
"""`UpdateScope`: makes updates of tables by stock optimizers cheaper."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Literal

import tensorflow as tf

from sok_compat.tables.table import Table
from sok_compat.training.rows_in_use import update_rows_in_use_only
from sok_compat.training.stock_updates import speed_up


class UpdateScope:
    """A scope in which to build `apply_gradients` of a stock optimizer.

    Updates of all rows of tables and their slots become updates of the rows in use
    (rows_in_use.py), and sparse updates get faster (stock_updates.py). These modules state to how
    many digits the numbers agree.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        """Makes the scope for some Tables; their slots are those in `table.slots` at its end."""
        self._tables = tables

    def __enter__(self) -> UpdateScope:
        self._num_operations = len(_all_operations())
        for table in self._tables:
            table.num_scopes += 1
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]:
        for table in self._tables:
            table.num_scopes -= 1
        if exception_type is None:
            speed_up(self._new_operations(), self._tables)
            update_rows_in_use_only(self._new_operations(), self._tables)
        return False

    def _new_operations(self) -> list[tf.Operation]:
        return _all_operations()[self._num_operations :]


def _all_operations() -> list[tf.Operation]:
    """All operations of the graph being built; none in eager mode."""
    if tf.executing_eagerly():
        return []
    return tf.compat.v1.get_default_graph().get_operations()
