# SPDX-License-Identifier: Apache-2.0
"""Keys of a step that trains are counted, and get rows when they have come often enough."""

import contextlib
import contextvars

import tensorflow as tf

from sok_compat.runtime.op_library import ops

_step = contextvars.ContextVar("step", default=None)


@contextlib.contextmanager
def counting_by(step):
    """Gradients that are built inside count their keys in this step.

    Args:
      step: an integer variable or tensor; None: the graph's global step.
    """
    token = _step.set(step)
    try:
        yield
    finally:
        _step.reset(token)


def occurrences(places, row_ids):
    """How often each of distinct keys came.

    Args:
      places: int32 [number of occurrences]: the place of each one's key.
      row_ids: [number of distinct keys].

    Returns:
      float32 [number of distinct keys].
    """
    none = tf.constant([], tf.float32)
    return tf.raw_ops.Bincount(arr=places, size=tf.size(row_ids), weights=none)


def admit_keys(tables, keys, row_ids, counts, absent_rows):
    """Counts keys, and gives rows to those that are to have one; see the op.

    Args:
      tables: handles of tables that keep a history.
      keys: int64 [n] for each, distinct.
      row_ids: int64 [n] for each, as the lookup found them: -1 where a key had no row.
      counts: float32 [n] for each.
      absent_rows: for each, what rows start as where row_ids are -1, or [0, dim]: what the op
        library makes.

    Returns:
      (places of the keys that this step trains, their row ids), int64 vectors, for each.
    """
    rows_to_train = ops.sok_admit_keys(
        tables,
        keys,
        row_ids,
        counts,
        absent_rows,
        _current_step(),
        rows_are_given=[tf.compat.dimension_value(rows.shape[0]) != 0 for rows in absent_rows],
    )
    places = [tf.where(ids >= 0)[:, 0] for ids in rows_to_train]
    return places, [tf.gather(ids, where) for ids, where in zip(rows_to_train, places)]


def counted_step(graph):
    """The variable by which gradients in a graph count, or would; None: there is none."""
    with graph.as_default():
        step = getattr(graph, "_sok_step", None)
        return tf.compat.v1.train.get_global_step() if step is None else step


def _current_step():
    step = _step.get()
    with tf.init_scope():  # out of functions and branches
        if step is None:
            step = tf.compat.v1.train.get_or_create_global_step()
        tf.compat.v1.get_default_graph()._sok_step = step
    return tf.cast(step, tf.int64)
