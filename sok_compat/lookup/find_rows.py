# SPDX-License-Identifier: Apache-2.0
"""Finds the row ids of keys, and the initial rows of keys without a row."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Union

import tensorflow as tf

from sok_compat.lookup.new_keys import NewKeys
from sok_compat.runtime.op_library import ops

if TYPE_CHECKING:
    from sok_compat.tables.table import Table


class _When(enum.Enum):
    WITH_GRADIENT = "with gradient"


WITH_GRADIENT = _When.WITH_GRADIENT
Insert = Union[bool, tf.Tensor, _When]  # see `lookup_group`


def find_rows(
    tables: Sequence[Table],
    keys: Sequence[tf.Tensor],
    insert: Insert,
    collective: tf.Tensor | None = None,
    new_keys: Sequence[NewKeys] | None = None,
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Finds the rows of a group's keys.

    Args:
      tables: list of Tables.
      keys: int64 [n] for each.
      insert: as of `lookup_group`.
      collective: of the lookup; None: no other rank takes part.
      new_keys: the NewKeys of each table; None: all keys get rows with the tables' first values.

    Returns:
      Two lists, with an item for each table: row ids int64 [n], -1 for keys without a row; initial
      rows [number of keys without a row, dim], or [0, dim] if the op library computes them.
    """
    uses_keys = insert is not False and any(
        table.history is not None and table.history.max_keys for table in tables
    )
    if insert is WITH_GRADIENT:
        insert = False
    if not isinstance(insert, bool):
        return tf.cond(
            insert,
            lambda: find_rows(tables, keys, True, collective, new_keys),
            lambda: find_rows(tables, keys, False, collective, new_keys),
        )
    row_ids = [None] * len(tables)
    absent_rows = [tf.zeros([0, table.dim], tf.float32) for table in tables]
    new_keys = new_keys or [NewKeys()] * len(tables)
    take_one_op = [new.take_one_op(table) for new, table in zip(new_keys, tables)]
    for at_once in (True, False):
        places = [i for i, is_one in enumerate(take_one_op) if is_one == at_once]
        if not places:
            continue
        inserts = insert and at_once
        found = ops.sok_find_rows(
            [tables[i].table_handle for i in places],
            [keys[i] for i in places],
            [] if collective is None else [collective],
            insert=inserts,
            keys_are_distinct=inserts,
            uses_keys=uses_keys,
        )
        for i, ids in zip(places, found):
            row_ids[i] = ids
            if at_once:
                continue
            if insert:
                row_ids[i], absent_rows[i] = new_keys[i].insert(tables[i], keys[i], ids)
            else:
                absent_rows[i] = _rows_of_absent(tables[i], keys[i], ids, new_keys[i])
    return row_ids, absent_rows


def _rows_of_absent(
    table: Table, keys: tf.Tensor, row_ids: tf.Tensor, new_keys: NewKeys
) -> tf.Tensor:
    positions = tf.where(row_ids < 0)
    return new_keys.rows_of(table, tf.gather(keys, positions[:, 0]), positions)


def insert_absent(
    tables: Sequence[tf.Tensor],
    keys: Sequence[tf.Tensor],
    row_ids: Sequence[tf.Tensor],
    absent_rows: Sequence[tf.Tensor],
) -> list[tf.Tensor]:
    """Inserts the keys for which a lookup found no row.

    Args:
      tables: handles of tables.
      keys: int64 [n] for each, distinct.
      row_ids: int64 [n] for each, as the lookup found them: -1 for keys without a row.
      absent_rows: for each, the initial rows of these keys, or [0, dim] if the op library computes
        them.

    Returns:
      Row ids int64 [n] for each.
    """
    return ops.sok_insert_absent(
        tables, keys, row_ids, absent_rows, rows_are_given=are_given(absent_rows)
    )


def are_given(absent_rows: Sequence[tf.Tensor]) -> list[bool]:
    """Whether rows are given for each table's keys without a row; False: the op library computes
    them."""
    return [tf.compat.dimension_value(rows.shape[0]) != 0 for rows in absent_rows]
