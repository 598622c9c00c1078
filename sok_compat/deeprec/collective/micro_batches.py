# SPDX-License-Identifier: Apache-2.0
"""Micro batches: `micro_batch_num` of DeepRec's session configuration.

A step of n micro batches first runs n - 1 times the gradients alone. It feeds them to the run of
the script, which updates variables by the mean over all n. So hooks, the global step and what the
script fetches count the step once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from sok_compat.runtime.graphs import ancestors, state_of
from sok_compat.runtime.op_library import ops

_SET_FIRST = (
    "set optimizer_options.micro_batch_num before the optimizer's minimize() or apply_gradients()"
)
_INSTEAD = "or take micro_batch_num = 1 and the whole batch as the script's"

_is_on = False  # whether a configuration has asked for micro batches


@dataclasses.dataclass(frozen=True, eq=False)
class _Step:
    """The gradients of one apply_gradients; of slices, the values and indices."""

    number: tf.Tensor  # to feed with the number of micro batches
    gradients: list[tf.Tensor]  # of this run
    earlier: list[tf.Tensor]  # to feed with those of earlier micro batches
    are_dense: list[bool]


def ask_for(number: int | None) -> None:
    """Lets optimizers of `tf.train` expect several micro batches a step from now on.

    Raises:
      RuntimeError: the graph has a step of one batch already.
    """
    global _is_on
    if not number or number <= 1:
        return
    if state_of(tf.get_default_graph()).has_whole_steps:
        raise RuntimeError(f"micro_batch_num={number} comes too late: {_SET_FIRST}, {_INSTEAD}")
    _is_on = True


def mean_gradients(grads_and_vars: Iterable[tuple[Any, tf.Variable]]) -> list[tuple[Any, Any]]:
    """The (gradient, variable) pairs to apply: means over the micro batches of a step."""
    pairs, state = list(grads_and_vars), state_of(tf.get_default_graph())
    if not _is_on:
        state.has_whole_steps = True
        return pairs
    with tf.name_scope("micro_batches"):
        step = _Step(tf.placeholder_with_default(0.0, [], name="number"), [], [], [])
        state.micro_batches.append(step)
        check = tf.debugging.Assert(
            step.number > 0,
            [
                "a configuration of this script has a micro_batch_num: run its steps in a "
                "tf.train.MonitoredTrainingSession, or a tf.estimator.Estimator, with that "
                f"configuration, {_INSTEAD}"
            ],
        )
        with tf.control_dependencies([check]):
            number = tf.identity(step.number)
        return [(_mean(gradient, variable, number, step), variable) for gradient, variable in pairs]


def _mean(gradient: Any, variable: Any, number: tf.Tensor, step: _Step) -> Any:
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values, indices = gradient.values, gradient.indices
        earlier_values, earlier_indices = (_earlier(part, step) for part in (values, indices))
        history = getattr(variable, "history", None)
        if history is not None and history.filter_freq:
            # Ids of keys without a row are those of a run.
            keys = _earlier(ops.sok_waiting_keys(variable.table_handle, indices), step)
            earlier_indices = ops.sok_wait_for_rows(variable.table_handle, earlier_indices, keys)
        values = tf.concat([earlier_values, values], axis=0)
        indices = tf.concat([earlier_indices, indices], axis=0)
        values /= tf.cast(number, values.dtype)
        return tf.IndexedSlices(values, indices, gradient.dense_shape)
    total = gradient + _earlier(gradient, step, is_dense=True)
    total.set_shape(gradient.shape)
    return total / tf.cast(number, total.dtype)


def _earlier(tensor: tf.Tensor, step: _Step, is_dense: bool = False) -> tf.Tensor:
    """What earlier micro batches gave: without them 0, or no slices."""
    none = tf.zeros([], tensor.dtype) if is_dense else tensor[:0]
    earlier = tf.placeholder_with_default(none, None if is_dense else [None, *tensor.shape[1:]])
    state_of(tensor.graph).fed_row_ids.add(earlier.op.name)
    step.gradients.append(tensor)
    step.earlier.append(earlier)
    step.are_dense.append(is_dense)
    return earlier


def with_micro_batches(
    hooks: Iterable[tf.train.SessionRunHook] | None, config: Any
) -> list[tf.train.SessionRunHook]:
    """The hooks of a session, with one that runs the micro batches which its configuration asks
    for."""
    options = config and config.graph_options.optimizer_options
    number = int(getattr(options, "micro_batch_num", 0) or 0)
    return [*(hooks or []), *([_MicroBatches(number)] if number > 1 else [])]


class _MicroBatches(tf.train.SessionRunHook):
    """Runs all but the last micro batch before each run of a step."""

    def __init__(self, number: int) -> None:
        self._number = number

    def begin(self) -> None:
        state = state_of(tf.get_default_graph())
        if state.has_whole_steps or not state.micro_batches:
            raise RuntimeError(
                f"micro_batch_num={self._number} needs a graph that an optimizer of tf.train "
                f"trains: {_SET_FIRST}, {_INSTEAD}"
            )
        self._steps_of = functools.cache(functools.partial(_steps_behind, state.micro_batches))

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        session, run = run_context.session, run_context.original_args
        fetched = tf.nest.flatten(run.fetches, expand_composites=True)
        steps = self._steps_of(tuple(map(session.graph.as_graph_element, fetched)))
        if not steps:
            return None
        gradients = [step.gradients for step in steps]
        earlier = [session.run(gradients, run.feed_dict) for _ in range(self._number - 1)]
        fed: dict[Any, Any] = {}
        for step, *runs in zip(steps, *earlier):
            fed[step.number] = self._number
            for place, is_dense, *values in zip(step.earlier, step.are_dense, *runs):
                fed[place] = sum(values) if is_dense else np.concatenate(values)
        return tf.train.SessionRunArgs(None, fed)


def _steps_behind(steps: Sequence[_Step], fetched: tuple[Any, ...]) -> list[_Step]:
    """The steps that a run of these tensors and operations takes."""
    ops = [each.op if isinstance(each, tf.Tensor) else each for each in fetched]
    found = set(ancestors(ops))
    return [step for step in steps if step.number.op in found]
