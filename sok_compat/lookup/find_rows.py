# SPDX-License-Identifier: Apache-2.0
"""Finds the row ids of keys, and the initial rows of keys without a row."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Union

import tensorflow as tf

from sok_compat.lookup.initial_rows import InitialRows
from sok_compat.runtime.op_library import ops
from sok_compat.tables.rows.first_rows import first_rows

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
    initial_rows: Sequence[InitialRows | None] | None = None,
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Finds the rows of a group's keys.

    Args:
      tables: list of Tables.
      keys: int64 [n] for each.
      insert: as of `lookup_group`.
      collective: of the lookup; None: no other rank takes part.
      initial_rows: for each, an InitialRows of its keys, or None for the table's first values.

    Returns:
      Two lists, with an item for each table: row ids int64 [n], -1 for keys without a row; initial
      rows [number of keys without a row, dim], or [0, dim] if the op library computes them.
    """
    if insert is WITH_GRADIENT:
        insert = False
    if not isinstance(insert, bool):
        return tf.cond(
            insert,
            lambda: find_rows(tables, keys, True, collective, initial_rows),
            lambda: find_rows(tables, keys, False, collective, initial_rows),
        )
    row_ids = [None] * len(tables)
    absent_rows = [tf.zeros([0, table.dim], tf.float32) for table in tables]
    initial_rows = initial_rows or [None] * len(tables)
    is_given = [
        table.first_value.is_given or rows is not None for table, rows in zip(tables, initial_rows)
    ]
    for given in (False, True):
        places = [i for i, is_one in enumerate(is_given) if is_one == given]
        if not places:
            continue
        inserts = insert and not given
        found = ops.sok_find_rows(
            [tables[i].table_handle for i in places],
            [keys[i] for i in places],
            [] if collective is None else [collective],
            insert=inserts,
            keys_are_distinct=inserts,
        )
        for i, ids in zip(places, found):
            row_ids[i] = ids
            if given:
                row_ids[i], absent_rows[i] = _first_rows(
                    tables[i], keys[i], ids, insert, initial_rows[i]
                )
    return row_ids, absent_rows


def _first_rows(
    table: Table,
    keys: tf.Tensor,
    row_ids: tf.Tensor,
    insert: bool,
    initial_rows: InitialRows | None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (row ids, initial rows of the keys without a row)."""
    positions = tf.where(row_ids < 0)
    absent_keys = tf.gather(keys, positions[:, 0])
    if initial_rows is None:
        absent_rows = first_rows(table, absent_keys)
    else:
        absent_rows = initial_rows(positions[:, 0])
    if not insert:
        return row_ids, absent_rows
    inserted = ops.sok_insert_rows(table.table_handle, absent_keys, absent_rows)
    return tf.tensor_scatter_nd_update(row_ids, positions, inserted), tf.zeros([0, table.dim])


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
    inserted = []
    for table, table_keys, ids, rows in zip(tables, keys, row_ids, absent_rows):
        if tf.compat.dimension_value(rows.shape[0]) != 0:
            absent_keys = tf.gather(table_keys, tf.where(ids < 0)[:, 0])
            inserted.append(ops.sok_insert_rows(table, absent_keys, rows))
    with tf.control_dependencies(inserted):
        return ops.sok_insert_absent(tables, keys, row_ids)
