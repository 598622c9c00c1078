# SPDX-License-Identifier: Apache-2.0
"""Methods of tf.Variable that raise for a table, or for one with a hash index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sok_compat.tables.variable_mixin import VariableMixin

_TO_READ = ("gather_nd", "sparse_read")
_BY_INDEX = (  # without a hash index, rows are a variable's: TensorFlow's methods do what they do
    "__deepcopy__",
    "batch_scatter_update",
    "count_up_to",
    "set_shape",
    "__int__",
    "__iadd__",
    "__isub__",
    "__imul__",
    "__itruediv__",
)
_TO_WRITE = (
    *_BY_INDEX,
    "from_proto",
    "load",
    *(f"scatter_{update}" for update in ("div", "max", "min", "mul")),
    *(f"scatter_nd_{update}" for update in ("add", "max", "min", "sub", "update")),
)


class UndefinedMethods(VariableMixin):
    """Base class, before BaseResourceVariable, of tables: its methods raise."""


def _not_implemented(method: str) -> Callable[..., Any]:
    def raise_not_implemented(self, *args, **kwargs):
        if method in _BY_INDEX and not self.use_hash_index:
            return getattr(super(UndefinedMethods, self), method)(*args, **kwargs)
        why = not_by_gather = ""
        if self.use_hash_index:
            why = ": its rows belong to keys"
            not_by_gather = " (not with tf.gather or tf.nn.embedding_lookup)"
        instead = (
            f"Look keys up {self.words.look_up}{not_by_gather}"
            if method in _TO_READ
            else f"Use an optimizer, or {self.words.set_rows} to set rows"
        )
        raise NotImplementedError(
            f"{method} is not defined for the table {self.table_name}{why}. {instead}"
        )

    raise_not_implemented.__name__ = method
    return raise_not_implemented


for _method in (*_TO_READ, *_TO_WRITE):
    setattr(UndefinedMethods, _method, _not_implemented(_method))
