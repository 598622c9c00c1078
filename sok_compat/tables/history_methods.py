# SPDX-License-Identifier: Apache-2.0
"""Methods of `Table` on the history of the keys of this rank; without a history they raise."""

from __future__ import annotations

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.tables.interface import TableInterface


def evict_keys(
    table_handle: tf.Tensor,
    step: int | tf.Tensor,
    steps_to_live: int | None,
    l2_threshold: float | None,
) -> tf.Tensor:
    """As `evict`, of a table of which only the handle is known."""
    return ops.sok_evict_keys(
        table_handle,
        tf.cast(step, tf.int64),
        steps_to_live=steps_to_live or 0,
        l2_threshold=l2_threshold or 0.0,
    )


def key_history(table: TableInterface, keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (counts, steps) of keys, int64 [n] each: how often a key came in training steps,
    and the global step of the last one; 0 and -1 for unknown keys. With max_keys, counts are 0,
    and a step is when a lookup that inserts last used the key, in nanoseconds since 1970.

    Raises:
      ValueError: no history is kept.
    """
    check_has_history(table, "key_history")
    with tf.device(table.device):
        return tuple(ops.sok_key_history(table.table_handle, keys))


def waiting_keys(table: TableInterface) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns (keys, counts, steps) of keys that have come but have no row yet, int64 [n] each.

    Keys in a Bloom filter are missing.

    Raises:
      ValueError: no history is kept.
    """
    check_has_history(table, "waiting_keys")
    with tf.device(table.device):
        return tuple(ops.sok_export_waiting_keys(table.table_handle))


def import_history(
    table: TableInterface, keys: tf.Tensor, counts: tf.Tensor, steps: tf.Tensor
) -> tf.Operation:
    """Returns an op that sets the history of distinct keys, with or without rows.

    Raises:
      ValueError: no history is kept.
    """
    check_has_history(table, "import_history")
    with tf.device(table.device):
        return ops.sok_import_history(table.table_handle, keys, counts, steps)


def evict(
    table: TableInterface,
    step: int | tf.Tensor,
    steps_to_live: int | None = None,
    l2_threshold: float | None = None,
) -> tf.Tensor:
    """Evicts keys. Running steps keep the rows that they have found; no other key gets these
    rows before the steps have ended.

    Args:
      step: the global step, an integer tensor; -1: the one after the last counted step.
      steps_to_live: evicts keys that came last before step - steps_to_live; None: no keys.
      l2_threshold: evicts keys whose row has half a squared norm below it; None: no keys.

    Returns:
      The number of evicted keys, a scalar int64 tensor.

    Raises:
      ValueError: the table's history does not evict.
    """
    if table.history is None or not table.history.evicts:
        raise ValueError(
            f"the table {table.table_name} was not made to evict keys: its history is "
            f"{table.history}"
        )
    with tf.device(table.device):
        return evict_keys(table.table_handle, step, steps_to_live, l2_threshold)


def make_room(table: TableInterface, keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Evicts the keys that a lookup of `keys` which inserts would evict.

    Returns:
      (evicted keys int64 [n], their rows float32 [n, dim]), the least recently used first.

    Raises:
      ValueError: the table has no max_keys.
    """
    if table.history is None or not table.history.max_keys:
        raise ValueError(
            f"the table {table.table_name} evicts no keys when it is full: its history is "
            f"{table.history}"
        )
    with tf.device(table.device):
        evicted, rows = ops.sok_make_room(table.table_handle, keys)
        rows.set_shape([None, table.dim])
        return evicted, rows


def check_has_history(table: TableInterface, method: str) -> None:
    """Raises ValueError for a table without a history."""
    if table.history is None:
        raise ValueError(
            f"{method}: the table {table.table_name} keeps no history of its keys, neither for "
            "a filter nor for eviction"
        )
