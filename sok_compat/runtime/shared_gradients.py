# SPDX-License-Identifier: Apache-2.0
"""Gradients of tables on several ranks, known again wherever they are given as mere tensors.

Such a gradient is a sum over ranks already, of the rows that this rank owns. So a tensor or slices
that a gradient function returns for a table are marked. In graphs and functions the mark is found
through what is elementwise; in eager mode on the slices' indices, which stay the same object where
their values are scaled or clipped.
"""

import functools
import logging
import weakref

import tensorflow as tf

from sok_compat.runtime import integrations

_logger = logging.getLogger("sok_compat")

_MARK = "_sok_compat_table"  # an attribute of tensors: a weak reference to the table
_REDUCED = "_sok_compat_reduced"  # another one: that the gradient is the same for all ranks

# Types of ops whose output is still a gradient of what an input of its rank is a gradient of.
_PASSING = {
    "Add", "AddN", "AddV2", "Cast", "CheckNumerics", "ClipByValue", "ConcatV2", "DivNoNan",
    "Identity", "IdentityN", "Maximum", "Minimum", "Mul", "MulNoNan", "Neg", "RealDiv", "Select",
    "SelectV2", "StopGradient", "Sub", "Switch", "Merge",
}  # fmt: skip


def watch_gradients(is_shared, check_tape=None):
    """Marks the gradients of tables from now on, and warns of norms of a part of them.

    Args:
      is_shared: a function of a variable: whether it is a table with rows on several ranks.
      check_tape: a function of a GradientTape and the tables that it is asked for; may raise.
    """
    integrations.apply(
        "tf.GradientTape.gradient", lambda gradient: _marking_tape(gradient, is_shared, check_tape)
    )
    integrations.apply("tf.gradients", lambda helper: _marking_helper(helper, is_shared))
    integrations.apply("tf.clip_by_global_norm", _warning_of_tables)


def table_of(gradient):
    """The table that a tensor or IndexedSlices is a gradient of, as far as is known; else None."""
    if isinstance(gradient, tf.IndexedSlices):
        table = _marked_table(gradient.indices)
        return _marked_table(gradient.values) if table is None else table
    return _marked_table(gradient) if isinstance(gradient, tf.Tensor) else None


def is_unknown(gradient):
    """Whether it is slices that a function gets as arguments: of a table, or of nothing known."""
    tensor = gradient.indices if isinstance(gradient, tf.IndexedSlices) else None
    while tf.is_symbolic_tensor(tensor):
        made_of = _made_of(tensor)
        if not made_of:
            return tensor.op.type == "Placeholder" and hasattr(tensor.graph, "outer_graph")
        tensor = made_of[0]
    return False


def mark(gradient, table):
    """Makes `table_of` know a gradient; what else has its tensors must be a gradient as well."""
    slices = isinstance(gradient, tf.IndexedSlices)
    for tensor in (gradient.values, gradient.indices) if slices else (gradient,):
        setattr(tensor, _MARK, weakref.ref(table))
    return gradient


def mark_reduced(gradient):
    """Makes `is_reduced` know a gradient: of an ordinary variable the same on all ranks, of a table
    scaled as such gradients are. What it is made of stays unknown; in eager mode, so do tensors.

    Args:
      gradient: what a reduction gives, or the slices of a table, or None.
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


def is_reduced(gradient):
    """Whether a gradient, as far as is known, has been reduced over ranks."""
    tensor = gradient.indices if isinstance(gradient, tf.IndexedSlices) else gradient
    return _attribute(tensor, _REDUCED) is not None


def _marked_table(tensor):
    reference = _attribute(tensor, _MARK)
    return None if reference is None else reference()


def _attribute(tensor, name):
    """Of the tensor, or of one that it is made of."""
    seen, waiting = set(), [tensor]
    while waiting:
        tensor = waiting.pop()
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        if hasattr(tensor, name):
            return getattr(tensor, name)
        if tf.is_symbolic_tensor(tensor):
            waiting += _made_of(tensor)
    return None


def _made_of(tensor):
    """What a symbolic tensor is made of without ceasing to be a gradient of one variable."""
    op = tensor.op
    if op.type == "Placeholder" and hasattr(tensor.graph, "captures"):
        return [outer for outer, inner in tensor.graph.captures if inner is tensor]
    rank = tensor.shape.rank
    if op.type not in _PASSING or rank == 0:
        return []
    return [x for x in op.inputs if x.shape.rank in (rank, None)]


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


def _marked(variables, gradients, is_shared):
    return [
        gradient if gradient is None or not is_shared(variable) else _own(gradient, variable)
        for variable, gradient in zip(variables, gradients)
    ]


def _own(gradient, table):
    if not isinstance(gradient, tf.IndexedSlices):
        gradient = tf.identity(gradient)  # another variable's gradient may be the same tensor
    return mark(gradient, table)


def _warning_of_tables(global_norm):
    has_warned = False

    @functools.wraps(global_norm)
    def warning_norm(t_list, name=None):
        nonlocal has_warned
        tables = [] if has_warned else [table_of(gradient) for gradient in t_list]
        table = next((table for table in tables if table is not None), None)
        if table is not None:
            has_warned = True
            _logger.warning(
                "tf.clip_by_global_norm, or global_clipnorm of an optimizer, takes the norm of "
                "this rank's rows of %s alone: each rank clips by another norm, and dense "
                "variables drift apart. Clip with %s",
                table.table_name,
                table.words.clip,
            )
        return global_norm(t_list, name)

    return warning_norm
