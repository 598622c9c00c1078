# SPDX-License-Identifier: Apache-2.0
"""`LooksUpKeys`: reads of a variable by keys, as tf.nn.embedding_lookup calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from sok_compat.lookup.dense_tables import tables_are_dense
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.keys import in_shape_of, integer_keys
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.ranks.collectives import is_of_one_rank

if TYPE_CHECKING:
    from sok_compat.tables.table import Table as TableMixin
else:
    TableMixin = object


def may_insert() -> bool:
    """Whether lookups insert keys; not in a graph that is built to be served."""
    return not (tables_are_dense() or is_of_one_rank())


class LooksUpKeys(TableMixin):
    """Base class, before Table, of variables that tf.nn.embedding_lookup reads by keys."""

    def sparse_read(self, indices: Any, name: str | None = None, insert: bool = True) -> tf.Tensor:
        """Returns the row of each key, of all ranks; tf.nn.embedding_lookup and tf.gather call it.

        All ranks call it together.

        Args:
          indices: keys of any integer dtype and any shape.
          name: name of the ops.
          insert: whether unknown keys get rows; if not, they read their first values. A graph that
            is built to be served inserts none.

        Returns:
          float32 [*indices.shape, dim], differentiable by the variable.

        Raises:
          TypeError: indices are not integers.
        """
        if self.shows_rows():  # to an optimizer, which has no keys
            return super().sparse_read(indices, name)
        keys = self.checked_keys(indices)
        with tf.name_scope(name or f"{self.table_name}_lookup"):
            keys_flat = tf.reshape(keys, [-1])
            (rows,) = lookup_group([Lookup(self, keys_flat)], insert and may_insert())
            return in_shape_of(keys, rows, self.dim)

    def checked_keys(self, keys: Any) -> tf.Tensor:
        """Returns `keys` as an int64 tensor.

        Raises:
          TypeError: keys are not integers, or not a dense tensor.
        """
        return integer_keys(keys, f"keys of {self.table_name}", "sok.lookup_sparse")
