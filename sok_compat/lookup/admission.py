# SPDX-License-Identifier: Apache-2.0
"""Keys of a step that trains are counted, and get rows when they have come often enough."""

import contextlib
import contextvars
import logging

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import reroute_input

_logger = logging.getLogger("sok_compat")
_step = contextvars.ContextVar("step", default=None)


@contextlib.contextmanager
def counting_by(step):
    """Gradients that are built inside count their keys in this step.

    Args:
      step: an integer variable or tensor; None: the one by which the graph counts already, or its
        global step.
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


def admission_of(op):
    """What remember_admission was given for this op of a lookup; None: its keys are not counted
    yet. Each of several gradients of it trains the same rows."""
    return _admissions(op).get(_place(op))


def remember_admission(op, admitted):
    """Keeps what admit_keys has returned for an op of a lookup."""
    _admissions(op)[_place(op)] = admitted


def _admissions(op):
    """Those of the graph that is being built, if the op is in it; else nothing is kept."""
    if tf.executing_eagerly():
        return {}
    graph = tf.compat.v1.get_default_graph()
    if op.graph is not graph:
        return {}
    if not hasattr(graph, "_sok_admissions"):
        graph._sok_admissions = {}
    return graph._sok_admissions


def _place(op):
    """A loop's gradient has a context of its own: what is made there is of no use elsewhere."""
    if tf.executing_eagerly():
        return None  # the op there has no name
    context = tf.compat.v1.get_default_graph()._get_control_flow_context()
    return op.name, context


def counted_step(graph):
    """What gradients in a graph count by, or would; None: there is nothing yet."""
    with graph.as_default():
        for kept in ("_sok_step", "_sok_assumed_step"):
            if hasattr(graph, kept):
                return getattr(graph, kept)
        return tf.compat.v1.train.get_global_step()


def count_by_applied(step):
    """Gradients of the default graph that were built without a step count by this one, with which
    they are applied; once: a later one that differs logs a warning.

    Args:
      step: an integer variable or tensor; None: nothing changes.
    """
    graph = tf.compat.v1.get_default_graph()
    assumed = getattr(graph, "_sok_assumed_step", None)
    if step is None or assumed is None or _step.get() is not None:
        return
    before = getattr(graph, "_sok_step", None)
    if before is None:
        graph._sok_step = step
        if step.name != tf.compat.v1.train.get_global_step().name:
            with tf.init_scope():
                reroute_input(assumed.op, 0, tf.cast(step, tf.int64))
    elif before.name != step.name:
        _logger.warning(
            "apply_gradients(global_step=%s): keys of embedding variables are counted, and "
            "evicted, by %s, with which gradients were applied before",
            step.name,
            before.name,
        )


def _current_step():
    with tf.init_scope():  # out of functions and branches
        graph = tf.compat.v1.get_default_graph()
        step = _step.get()
        if step is None:
            step = getattr(graph, "_sok_step", None)
        if step is None:
            step = _assumed_step(graph)
        else:
            graph._sok_step = step
    return tf.cast(step, tf.int64)


def _assumed_step(graph):
    """The global step, for gradients that may be applied with another one."""
    if tf.executing_eagerly():
        return tf.compat.v1.train.get_or_create_global_step()
    if not hasattr(graph, "_sok_assumed_step"):
        step = tf.cast(tf.compat.v1.train.get_or_create_global_step(), tf.int64)
        graph._sok_assumed_step = tf.identity(step, name="counted_step")
    return graph._sok_assumed_step
