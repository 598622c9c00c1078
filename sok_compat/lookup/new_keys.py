# SPDX-License-Identifier: Apache-2.0
"""`NewKeys`: what a lookup does with keys that have no row."""

from __future__ import annotations

import dataclasses
import enum
from typing import Union

import tensorflow as tf

from sok_compat.lookup.initial_rows import InitialRows
from sok_compat.runtime.op_library import ops
from sok_compat.tables.rows.row_generations import kept_as
from sok_compat.tables.table import Table


class _When(enum.Enum):
    WITH_GRADIENT = "with gradient"


WITH_GRADIENT = _When.WITH_GRADIENT
Insert = Union[bool, tf.Tensor, _When]  # see `lookup_group`


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

    insert: whether, and when, they get one: as of `lookup_group`, which sets it.
    initial_rows: the InitialRows of the lookup's keys; None: the table's first values. They get no
      gradient.
    draw: a KeyDraw of those that get rows; None: all do.
    evicted: an EvictedKeys that takes the keys and rows that the lookup evicts from this rank's
      table, which has max_keys.
    """

    insert: Insert = False
    initial_rows: InitialRows | None = None
    draw: KeyDraw | None = None
    evicted: EvictedKeys | None = None

    @property
    def inserts_when_read(self) -> bool:
        """Whether keys may get rows when the lookup reads them."""
        return self.insert is True or isinstance(self.insert, tf.Tensor)

    @property
    def all_get_rows(self) -> bool:
        """Whether all keys have a row when the lookup reads them."""
        return self.insert is True and self.draw is None

    def gradient_of(self, table: Table) -> str:
        """Returns what a gradient of the lookup does with the table's new keys: an attribute of
        ops."""
        if self.insert is not WITH_GRADIENT:
            return "reads"
        return "counts" if table.counts_keys else "inserts"

    def check(self, table: Table) -> None:
        """Raises ValueError, as `lookup_group`, for a policy that the table cannot follow."""
        if self.insert is not True and (self.draw or self.evicted):
            raise ValueError(
                f"a lookup in {table.table_name} with a draw of new keys, or that outputs evicted "
                f"ones, needs insert=True, got {self.insert}"
            )
        if self.insert is WITH_GRADIENT:
            if tf.executing_eagerly():
                raise ValueError(
                    "a lookup with insert=WITH_GRADIENT needs a graph or a tf.function"
                )
        elif self.insert is not False and table.counts_keys:
            raise ValueError(
                f"the table {table.table_name} counts keys when gradients are computed: look them "
                f"up with insert=WITH_GRADIENT or False, not {self.insert}"
            )

    def with_initial_rows(self, initial_rows: InitialRows | None) -> NewKeys:
        """The policy with the InitialRows of other keys: distinct or received ones."""
        return dataclasses.replace(self, initial_rows=initial_rows)

    def gives_rows(self, table: Table) -> bool:
        """Whether new keys get rows that the op library does not compute."""
        return table.first_value.is_given or self.initial_rows is not None

    def take_one_op(self, table: Table) -> bool:
        """Whether the op that finds rows can insert the keys, too."""
        return not (self.gives_rows(table) or self.draw or self.evicted)

    def absent_rows(self, table: Table, keys: tf.Tensor, row_ids: tf.Tensor) -> tf.Tensor:
        """Returns the initial rows of the keys that have no row, those with a row id of -1.

        They are [0, dim] if the op library computes them.
        """
        if not self.gives_rows(table):
            return tf.zeros([0, table.dim])
        places = tf.where(row_ids < 0)[:, 0]
        return self._rows_at(table, tf.gather(keys, places), places)

    def _rows_at(self, table: Table, keys: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        if self.initial_rows is not None:
            return self.initial_rows(places)
        return table.first_value.evaluate(tf.stack([tf.size(keys), table.dim]))

    def insert_absent(
        self, table: Table, keys: tf.Tensor, row_ids: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Inserts the keys that have no row, -1 in `row_ids`, as far as they are drawn.

        Returns:
          (row ids, rows [number of keys without a row, dim] that the lookup reads for the others,
          or [0, dim] if there are none)
        """
        places = tf.where(row_ids < 0)[:, 0]
        absent = tf.gather(keys, places)
        if self.draw is not None:
            is_drawn = ops.sok_draw_keys(
                table.table_handle, absent, ratio=self.draw.ratio, seed=self.draw.seed
            )
            places, absent = (tf.boolean_mask(each, is_drawn) for each in (places, absent))
        inserted = self._inserted(table, absent, places)
        all_row_ids = tf.tensor_scatter_nd_update(row_ids, places[:, tf.newaxis], inserted)
        all_row_ids = kept_as(all_row_ids, row_ids, inserted)
        num_left = 0 if self.draw is None else tf.math.count_nonzero(all_row_ids < 0)
        return all_row_ids, tf.zeros([num_left, table.dim])

    def _inserted(self, table: Table, keys: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        room: tuple[tf.Tensor, ...] = ()
        if self.evicted is not None:
            room = self.evicted.keys, self.evicted.rows = table.make_room(keys)
        with tf.control_dependencies(room):
            if self.gives_rows(table):
                rows = self._rows_at(table, keys, places)
                return ops.sok_insert_rows(table.table_handle, keys, rows)
            (row_ids,) = ops.sok_find_rows(
                [table.table_handle], [keys], [], insert=True, keys_are_distinct=True
            )
            return row_ids
