# SPDX-License-Identifier: Apache-2.0
"""What a lookup that inserts does with keys that have no row yet."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import tensorflow as tf

from sok_compat.lookup.initial_rows import InitialRows
from sok_compat.runtime.op_library import ops
from sok_compat.tables.rows.row_ids import kept_as

if TYPE_CHECKING:
    from sok_compat.tables.table import Table


@dataclasses.dataclass(frozen=True)
class KeyDraw:
    """Draws the new keys that get rows. Other new keys contribute zeros, and are not inserted.

    ratio: the probability, in [0, 1].
    seed: an int, the same on all ranks. The draw is a pure function of the seed, the key, and how
      many draws the table has seen.
    """

    ratio: float
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.ratio <= 1:
            raise ValueError(f"ratio must be in [0, 1], got {self.ratio}")


class EvictedKeys:
    """Takes the keys that a lookup evicts from this rank's table, and their rows.

    keys: int64 [n], the least recently used first; None before the lookup.
    rows: float32 [n, dim].
    """

    keys: tf.Tensor | None = None
    rows: tf.Tensor | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class NewKeys:
    """What a lookup does with the keys of one table that have no row.

    initial_rows: the InitialRows of the lookup's keys; None: the table's first values.
    draw: a KeyDraw; None: all get rows.
    evicted: an EvictedKeys; None: keys that are evicted for new ones are not output.
    """

    initial_rows: InitialRows | None = None
    draw: KeyDraw | None = None
    evicted: EvictedKeys | None = None

    def take_one_op(self, table: Table) -> bool:
        """Whether the op that finds rows can insert the keys, too."""
        return not (table.first_value.is_given or self.initial_rows or self.draw or self.evicted)

    def rows_of(self, table: Table, keys: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        """The initial rows of keys, which are at these positions in the lookup."""
        if self.initial_rows is not None:
            return self.initial_rows(positions[:, 0])
        if table.first_value.is_given:
            return table.first_value.evaluate(tf.stack([tf.size(keys), table.dim]))
        return tf.zeros([0, table.dim])  # the op library computes them

    def insert(
        self, table: Table, keys: tf.Tensor, row_ids: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Inserts the keys that have no row, -1 in `row_ids`, as far as they are drawn.

        Returns:
          (row ids, rows [number of keys without a row, dim] that the lookup reads for the others,
          or [0, dim] if there are none)
        """
        positions = tf.where(row_ids < 0)
        absent_keys = tf.gather(keys, positions[:, 0])
        if self.draw is not None:
            is_drawn = ops.sok_draw_keys(
                table.table_handle, absent_keys, ratio=self.draw.ratio, seed=self.draw.seed
            )
            positions = tf.boolean_mask(positions, is_drawn)
            absent_keys = tf.boolean_mask(absent_keys, is_drawn)
        inserted = self._inserted(table, absent_keys, positions)
        all_row_ids = tf.tensor_scatter_nd_update(row_ids, positions, inserted)
        if table.history is not None:  # else no key loses its row
            all_row_ids = kept_as(all_row_ids, row_ids, inserted)
        num_left = 0 if self.draw is None else tf.math.count_nonzero(all_row_ids < 0)
        return all_row_ids, tf.zeros([num_left, table.dim])

    def _inserted(self, table: Table, keys: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        room: tuple[tf.Tensor, ...] = ()
        if self.evicted is not None:
            room = self.evicted.keys, self.evicted.rows = table.make_room(keys)
        with tf.control_dependencies(room):
            if self.initial_rows is None and not table.first_value.is_given:
                (row_ids,) = ops.sok_find_rows(
                    [table.table_handle], [keys], [], insert=True, keys_are_distinct=True
                )
                return row_ids
            rows = self.rows_of(table, keys, positions)
            return ops.sok_insert_rows(table.table_handle, keys, rows)
