# SPDX-License-Identifier: Apache-2.0
"""Finds the row ids of keys, and the initial rows of keys without a row."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from sok_compat.lookup.new_keys import WITH_GRADIENT, NewKeys
from sok_compat.runtime.op_library import ops
from sok_compat.tables.table import Table


def find_rows(
    tables: Sequence[Table],
    keys: Sequence[tf.Tensor],
    new_keys: Sequence[NewKeys],
    collective: tf.Tensor | None = None,
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Finds the rows of a group's keys, int64 [n] for each table; distinct if new keys may get
    rows.

    Args:
      new_keys: the NewKeys of each table, with one `insert`.
      collective: of the lookup; None: no other rank takes part.

    Returns:
      Two lists, with an item for each table: row ids int64 [n], -1 for keys without a row; initial
      rows [number of keys without a row, dim], or [0, dim] if the op library computes them.
    """
    insert = new_keys[0].insert
    group = _Group(tables, keys, new_keys, [] if collective is None else [collective])
    if insert is True:
        return group.insert()
    if insert is False or insert is WITH_GRADIENT:
        return group.read(uses_keys=insert is WITH_GRADIENT)
    return tf.cond(insert, group.insert, lambda: group.read(uses_keys=False))


@dataclasses.dataclass(frozen=True)
class _Group:
    tables: Sequence[Table]
    keys: Sequence[tf.Tensor]
    new_keys: Sequence[NewKeys]
    collectives: list[tf.Tensor]

    def read(self, uses_keys: bool) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        row_ids = self._find(range(len(self.tables)), uses_keys)
        items = zip(self.new_keys, self.tables, self.keys, row_ids)
        return row_ids, [new.absent_rows(*item) for new, *item in items]

    def insert(self) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        absent_rows = [tf.zeros([0, table.dim]) for table in self.tables]
        take_one_op = [new.take_one_op(table) for new, table in zip(self.new_keys, self.tables)]
        at_once = [i for i, takes_one in enumerate(take_one_op) if takes_one]
        others = [i for i, takes_one in enumerate(take_one_op) if not takes_one]
        row_ids = dict(zip(at_once, self._find(at_once, insert=True, keys_are_distinct=True)))
        for i, found in zip(others, self._find(others)):
            row_ids[i], absent_rows[i] = self.new_keys[i].insert_absent(
                self.tables[i], self.keys[i], found
            )
        return [row_ids[i] for i in range(len(self.tables))], absent_rows

    def _find(
        self, places: Sequence[int], uses_keys: bool = True, **attributes: Any
    ) -> list[tf.Tensor]:
        if not places:
            return []
        limits = any(table.history is not None and table.history.max_keys for table in self.tables)
        return ops.sok_find_rows(
            [self.tables[i].table_handle for i in places],
            [self.keys[i] for i in places],
            self.collectives,
            uses_keys=uses_keys and limits,
            **{"insert": False, "keys_are_distinct": False, **attributes},
        )
