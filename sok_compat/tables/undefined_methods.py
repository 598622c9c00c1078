# SPDX-License-Identifier: Apache-2.0
"""Methods of tf.Variable that are undefined for a table, and raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

_TO_READ = ("gather_nd", "sparse_read")
_TO_WRITE = (
    "count_up_to",
    "from_proto",
    "load",
    "set_shape",
    *(f"scatter_{update}" for update in ("div", "max", "min", "mul")),
    *(f"scatter_nd_{update}" for update in ("add", "max", "min", "sub", "update")),
    "batch_scatter_update",
    "__deepcopy__",
    "__int__",
    "__iadd__",
    "__isub__",
    "__imul__",
    "__itruediv__",
)


class UndefinedMethods:
    """Base class, before BaseResourceVariable, of tables: its methods raise."""


def _not_implemented(method: str) -> Callable[..., NoReturn]:
    def raise_not_implemented(self, *args, **kwargs):
        del args, kwargs
        instead = (
            f"Look keys up {self.words.look_up} (not with tf.gather or tf.nn.embedding_lookup)"
            if method in _TO_READ
            else f"Use an optimizer, or {self.words.set_rows} to set rows"
        )
        raise NotImplementedError(
            f"{method} is not defined for the table {self.table_name}: its rows belong to keys. "
            f"{instead}"
        )

    raise_not_implemented.__name__ = method
    return raise_not_implemented


for _method in (*_TO_READ, *_TO_WRITE):
    setattr(UndefinedMethods, _method, _not_implemented(_method))
