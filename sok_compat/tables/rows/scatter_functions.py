# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.scatter_update and its like on tables: as the tables' own methods.

TensorFlow's functions pass a variable's handle to an op, which writes rows by row id, in use or
not, and asks no method of the variable.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from sok_compat.runtime import integrations
from sok_compat.tables.resource_handles import table_of_rows

_PREFIX = "resource_scatter_"


def scatter_by_methods() -> None:
    """Makes these functions call `Table.scatter` from now on."""
    for name in ("tf.scatter_update", "tf.scatter_nd_update"):
        integrations.apply(f"{name} and its like, their ops", _ScattersOfTables)


class _ScattersOfTables:
    """TensorFlow's module of ops, for the module of these functions only."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._module, name)
        return _by_method(function, name) if name.startswith(_PREFIX) else function


def _by_method(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def scatter(handle, indices, updates, *args, name=None, **kwargs):
        table = table_of_rows(handle)
        if table is None:
            return function(handle, indices, updates, *args, name=name, **kwargs)
        return table.scatter(update, indices, updates, name)

    update = name.removeprefix(_PREFIX)
    return scatter
