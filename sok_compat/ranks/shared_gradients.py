# SPDX-License-Identifier: Apache-2.0
"""Marks the gradients of tables on several ranks, to recognise them as plain tensors later.

Such a gradient is already a sum over ranks, of the rows that this rank owns. Gradient functions
mark the tensors or slices that they return for tables. In graphs and functions, the mark is found
through elementwise ops; in eager mode, on the slices' indices, which stay the same object when the
values are scaled or clipped.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sok_compat.runtime import integrations
from sok_compat.runtime.graphs import ancestors, captured_as, is_function

_MARK = "_sok_compat_table"  # an attribute of tensors: a weak reference to the table
_REDUCED = "_sok_compat_reduced"  # an attribute of tensors that have been reduced over ranks
_PLANE = "_sok_compat_plane"  # an attribute of the handles of tables and slots

# Types of ops whose output is a gradient of the same variable as an input of the same rank.
_PASSING = {
    "Add", "AddN", "AddV2", "Cast", "CheckNumerics", "ClipByValue", "ConcatV2", "DivNoNan",
    "Identity", "IdentityN", "Maximum", "Minimum", "Mul", "MulNoNan", "Neg", "RealDiv", "Select",
    "SelectV2", "StopGradient", "Sub", "Switch", "Merge", "UnsortedSegmentSum",
}  # fmt: skip


def watch_gradients(
    is_shared: Callable[[tf.Variable], bool],
    check_tape: Callable[[tf.GradientTape, list[Any]], None] | None = None,
) -> None:
    """Marks the gradients of tables with rows on several ranks from now on.

    Args:
      check_tape: called with a GradientTape and the tables in its sources; may raise.
    """
    integrations.apply(
        "tf.GradientTape.gradient", lambda gradient: _marking_tape(gradient, is_shared, check_tape)
    )
    integrations.apply("tf.gradients", lambda helper: _marking_helper(helper, is_shared))


@tf.autograph.experimental.do_not_convert
def table_of(gradient: tf.Tensor | tf.IndexedSlices | None) -> Any:
    """The table that a tensor or IndexedSlices is known to be a gradient of, or None."""
    if isinstance(gradient, tf.IndexedSlices):
        table = _marked_table(gradient.indices)
        return _marked_table(gradient.values) if table is None else table
    return _marked_table(gradient) if isinstance(gradient, tf.Tensor) else None


def mark_handle_of_plane(handle: tf.Tensor) -> tf.Tensor:
    """Marks the handle of a table or slot for `is_handle_of_plane`; returns it."""
    setattr(handle, _PLANE, True)
    return handle


def is_handle_of_plane(tensor: Any) -> bool:
    """Whether a tensor is the handle of a table or slot."""
    return getattr(tensor, _PLANE, False)


@tf.autograph.experimental.do_not_convert
def is_unknown(gradient: tf.Tensor | tf.IndexedSlices | None) -> bool:
    """Whether a gradient is slices that a function got as arguments, perhaps of a table."""
    tensor: Any = gradient.indices if isinstance(gradient, tf.IndexedSlices) else None
    if not tf.is_symbolic_tensor(tensor):
        return False
    *_, first = ancestors([tensor], lambda gradient: _made_of(gradient)[:1])
    is_symbolic = tf.is_symbolic_tensor(first)
    return is_symbolic and first.op.type == "Placeholder" and is_function(first.graph)


@tf.autograph.experimental.do_not_convert
def mark(
    gradient: tf.Tensor | tf.IndexedSlices, table: tf.Variable
) -> tf.Tensor | tf.IndexedSlices:
    """Marks a gradient for `table_of`; its tensors must have no other use than as gradients."""
    slices = isinstance(gradient, tf.IndexedSlices)
    for tensor in (gradient.values, gradient.indices) if slices else (gradient,):
        setattr(tensor, _MARK, weakref.ref(table))
    return gradient


@tf.autograph.experimental.do_not_convert
def mark_reduced(
    gradient: tf.Tensor | tf.IndexedSlices | None,
) -> tf.Tensor | tf.IndexedSlices | None:
    """Marks the result of a reduction for `is_reduced`: an ordinary variable's gradient is then the
    same on all ranks, and a table's slices are scaled alike.

    The mark is on a copy, not on the given tensors. In eager mode, dense tensors are not marked.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        if tf.is_symbolic_tensor(gradient):
            table, gradient = _marked_table(gradient), tf.identity(gradient)
            setattr(gradient, _REDUCED, True)
            return gradient if table is None else mark(gradient, table)
        return gradient
    table, indices = table_of(gradient), tf.identity(gradient.indices, "indices")
    setattr(indices, _REDUCED, True)
    gradient = tf.IndexedSlices(gradient.values, indices, gradient.dense_shape)
    return gradient if table is None else mark(gradient, table)


@tf.autograph.experimental.do_not_convert
def is_reduced(gradient: tf.Tensor | tf.IndexedSlices) -> bool:
    """Whether a gradient is known to have been reduced over ranks."""
    tensor = gradient.indices if isinstance(gradient, tf.IndexedSlices) else gradient
    return _attribute(tensor, _REDUCED) is not None


@tf.autograph.experimental.do_not_convert
def reduced_table(
    gradient: tf.Tensor | tf.IndexedSlices | None, op: Any, job: Any, scale: float = 1.0
) -> tf.Tensor | tf.IndexedSlices | None:
    """Returns a table's gradient, scaled as a reduction scales an ordinary one.

    It starts as a sum over ranks. A reduced gradient counts as the same on all ranks: its average
    is itself, and its sum is multiplied by their number.
    """
    before = gradient is not None and is_reduced(gradient)
    if op == job.Average and not before:
        scale /= job.size()
    elif op == job.Sum and before:
        scale *= job.size()
    return mark_reduced(_scaled(gradient, scale))


def _scaled(gradient, scale):
    if gradient is None or scale == 1.0:
        return gradient
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * scale, gradient.indices, gradient.dense_shape)
    return gradient * scale


def _marked_table(tensor):
    reference = _attribute(tensor, _MARK)
    return None if reference is None else reference()


def _attribute(tensor, name):
    """The attribute of a tensor or of one that it is made of; None if there is none."""
    found = (each for each in ancestors([tensor], _made_of) if hasattr(each, name))
    return getattr(next(found, None), name, None)


def _made_of(tensor):
    """The inputs of a symbolic tensor that are gradients of the same variable."""
    if not tf.is_symbolic_tensor(tensor):
        return []
    rank = tensor.shape.rank
    if tensor.op.type not in _PASSING or rank == 0:
        return captured_as(tensor)
    return [x for x in tensor.op.inputs if x.shape.rank in (rank, None)]


def _marking_tape(gradient, is_shared, check_tape):
    @functools.wraps(gradient)
    def gradient_with_marks(self, target, sources, *args, **kwargs):
        variables = tf.nest.flatten(sources)
        tables = [variable for variable in variables if is_shared(variable)]
        if tables and check_tape:
            check_tape(self, tables)
        gradients = gradient(self, target, sources, *args, **kwargs)
        if not tables:
            return gradients
        marked = _marked(variables, tf.nest.flatten(gradients), is_shared)
        return tf.nest.pack_sequence_as(gradients, marked)

    return gradient_with_marks


def _marking_helper(helper, is_shared):
    @functools.wraps(helper)
    def helper_with_marks(ys, xs, *args, **kwargs):
        variables = list(xs) if isinstance(xs, (list, tuple)) else [xs]
        return _marked(variables, helper(ys, xs, *args, **kwargs), is_shared)

    return helper_with_marks


@tf.autograph.experimental.do_not_convert
def _marked(variables, gradients, is_shared):
    return [
        gradient if gradient is None or not is_shared(variable) else _own(gradient, variable)
        for variable, gradient in zip(variables, gradients)
    ]


def _own(gradient, table):
    if not isinstance(gradient, tf.IndexedSlices):
        gradient = tf.identity(gradient)  # another variable's gradient may be the same tensor
    return mark(gradient, table)
