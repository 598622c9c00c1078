# SPDX-License-Identifier: Apache-2.0
"""The step by which gradients count keys, and the rows that filters admit, once for each lookup."""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from sok_compat.runtime.graphs import GraphState, ancestors, state_here, state_of
from sok_compat.runtime.tf_versions import members

_logger = logging.getLogger("sok_compat")
_step: contextvars.ContextVar[Any] = contextvars.ContextVar("step", default=None)

_has_waiting: contextvars.ContextVar[bool] = contextvars.ContextVar("waiting", default=False)


@contextlib.contextmanager
def counting_by(step: tf.Tensor | tf.Variable | None) -> Iterator[None]:
    """Context in which gradients that are built count their keys by this step; None: by the graph's
    current one, or its global step."""
    token = _step.set(step)
    try:
        yield
    finally:
        _step.reset(token)


@contextlib.contextmanager
def gradients_of_waiting_keys() -> Iterator[None]:
    """Context in which gradients that are built also have the keys that a filter keeps out.

    Their ids are below -1. SokApplyRule trains them if a later lookup of the step admits them; no
    other update takes such ids.
    """
    token = _has_waiting.set(True)
    try:
        yield
    finally:
        _has_waiting.reset(token)


def occurrences(places: tf.Tensor, row_ids: tf.Tensor) -> tf.Tensor:
    """Counts the occurrences of each distinct key, int32 [keys]; `places` are the index of each
    occurrence's key."""
    none = tf.constant([], tf.int32)
    return tf.raw_ops.Bincount(arr=places, size=tf.size(row_ids), weights=none)


def places_to_train(rows_to_train: tf.Tensor) -> tf.Tensor:
    """Returns int64 [n], the places of a gradient's keys among those of SokAdmitKeys."""
    if _has_waiting.get():
        return tf.where(tf.not_equal(rows_to_train, -1))[:, 0]
    if tf.executing_eagerly():
        return tf.where(rows_to_train >= 0)[:, 0]
    ids = tf.maximum(rows_to_train, tf.constant(-1, tf.int64))
    where = tf.where(tf.not_equal(ids, -1))
    # Made here, as a loop's ops take no others.
    least = tf.constant(tf.int64.min, tf.int64)
    state_here().gradients_of_rows[where.op.name] = ids.op, least
    return where[:, 0]


def include_waiting_keys(row_ids: tf.Tensor) -> None:
    """Makes a gradient in the graph being built, whose indices are `row_ids` or computed from them,
    have waiting keys, as gradients_of_waiting_keys.

    Those of lookups in control flow v2 stay without.
    """
    if not tf.is_symbolic_tensor(row_ids):
        return
    of_rows = state_of(row_ids.graph).gradients_of_rows
    made_of = ancestors([row_ids.op], lambda op: [x.op for x in op.inputs if x.dtype.is_integer])
    for op in made_of if of_rows else ():
        if op.name in of_rows:
            ids, least = of_rows.pop(op.name)
            members.reroute_input(ids, 1, least)


def admission_of(op: tf.Operation) -> list[tf.Tensor] | None:
    """Returns the result of SokAdmitKeys for an op of a lookup; None if that is still to come.

    All gradients of the op train the same rows.
    """
    return _admissions(op).get(_place(op))


def gradient_kind(op: tf.Operation) -> str:
    """What a gradient of an op of a lookup does with new keys: as `NewKeys.gradient_of`."""
    return tf.compat.as_str(op.get_attr("gradient"))


def must_count(op: tf.Operation) -> bool:
    """Whether a gradient of an op of a lookup is the first one that counts its keys."""
    return gradient_kind(op) == "counts" and admission_of(op) is None


def remember_admission(op: tf.Operation, rows_to_train: list[tf.Tensor]) -> None:
    """Remembers the result of SokAdmitKeys for an op of a lookup."""
    _admissions(op)[_place(op)] = rows_to_train


def _admissions(op: tf.Operation) -> dict[Any, list[tf.Tensor]]:
    """Admissions of the graph being built, if the op is in it; else an empty dict."""
    output = op.outputs[0]
    if tf.executing_eagerly() or not tf.is_symbolic_tensor(output):
        return {}
    graph = tf.compat.v1.get_default_graph()
    return state_of(graph).admissions if output.graph is graph else {}


def _place(op: tf.Operation) -> tuple[str, Any] | None:
    """Key of an op in _admissions, with the control flow context, as tensors stay within a loop."""
    output = op.outputs[0]  # tf.GradientTape gives the inputs and outputs of an op without a name
    if tf.executing_eagerly() or not tf.is_symbolic_tensor(output):
        return None
    return output.op.name, members.control_flow_context(tf.compat.v1.get_default_graph())


def counted_step(graph: tf.Graph) -> tf.Tensor | tf.Variable | None:
    """Returns the step by which gradients in a graph count, or would count, or None."""
    for step in (state_of(graph).step, state_of(graph).assumed_step):
        if step is not None:
            return step
    return tf.compat.v1.train.get_global_step(graph)


def count_by_applied(step: tf.Tensor | tf.Variable | None) -> None:
    """Makes gradients of the default graph that were built without a step count by `step`, with
    which they are applied, unless that is None.

    Applies once: a later, different step logs a warning.
    """
    state = state_of(tf.compat.v1.get_default_graph())
    assumed, before = state.assumed_step, state.step
    if step is None or assumed is None or _step.get() is not None:
        return
    if before is None:
        state.step = step
        if step.name != tf.compat.v1.train.get_global_step().name:
            with tf.init_scope():
                members.reroute_input(assumed.op, 0, tf.cast(step, tf.int64))
    elif before.name != step.name:
        _logger.warning(
            "apply_gradients(global_step=%s): keys of embedding variables are still counted and "
            "evicted by %s, the step of an earlier apply_gradients",
            step.name,
            before.name,
        )


def current_step() -> tf.Tensor:
    """Returns the step by which gradients that are built now count, a scalar int64."""
    with tf.init_scope():  # outside functions and branches
        state, step = state_of(tf.compat.v1.get_default_graph()), _step.get()
        if step is None:
            step = state.step
        if step is None:
            step = _assumed_step(state)
        else:
            state.step = step
    return tf.cast(step, tf.int64)


def _assumed_step(state: GraphState) -> tf.Tensor | tf.Variable:
    """The global step, until gradients are applied with another one."""
    if tf.executing_eagerly():
        return tf.compat.v1.train.get_or_create_global_step()
    if state.assumed_step is None:
        step = tf.cast(tf.compat.v1.train.get_or_create_global_step(), tf.int64)
        state.assumed_step = tf.identity(step, name="counted_step")
    return state.assumed_step
