# SPDX-License-Identifier: Apache-2.0
"""Gradients through Horovod's collectives, for ranks that train as one process, in graphs.

Such ranks take the mean of their gradients afterwards. So what reaches the input of a collective is
the derivative of the sum of all ranks' losses, and, since scripts add up losses by
hvd.allreduce(op=hvd.Sum) where they mean their mean, that of the mean in its place.
"""

import contextlib
import functools
import logging
import math
import threading

import numpy as np
import tensorflow as tf

from sok_compat.runtime.horovod_ranks import active_horovod
from sok_compat.runtime.tickets import named_reduction

_logger = logging.getLogger("sok_compat")

_PREFIX = "SokCompat"  # of the names of gradients, behind which is the type of the op
_REDUCTIONS = {  # {type of op: Horovod's own gradient of it}
    "HorovodAllreduce": "_allreduce_grad",
    "HorovodGroupedAllreduce": "_grouped_allreduce_grad",
}
_GATHERINGS = {
    "HorovodAllgather": "_allgather_grad",
    "HorovodGroupedAllgather": "_grouped_allgather_grad",
}
_OF_SHAPES = {"BroadcastGradientArgs", "OnesLike", "Rank", "Shape", "ShapeN", "Size", "ZerosLike"}

_VARIABLES = {"VarHandleOp", "Variable", "VariableV2"}

_is_in_force = None  # a function: whether the ranks train as one; None: they never do
_differentiated = threading.local()  # .ops: those that the losses are made of


def train_as_one(is_in_force):
    """Makes collectives that Horovod's helpers put into graphs from now on have these gradients.

    Args:
      is_in_force: a function: whether the graph that is being built is of ranks that train as one.
    """
    global _is_in_force
    _is_in_force = is_in_force
    _register_gradients()


@functools.cache
def _register_gradients():
    for op_type in _REDUCTIONS:
        tf.RegisterGradient(_PREFIX + op_type)(_gradient_of_reduction)
    for op_type in _GATHERINGS:
        tf.RegisterGradient(_PREFIX + op_type)(_gradient_of_gathering)


def with_gradients():
    """A context for making collectives, in which they have these gradients if that is in force."""
    if _is_in_force is None or tf.executing_eagerly() or not _is_in_force():
        return contextlib.nullcontext()
    types = {op_type: _PREFIX + op_type for op_type in (*_REDUCTIONS, *_GATHERINGS)}
    return tf.compat.v1.get_default_graph().gradient_override_map(types)


@contextlib.contextmanager
def differentiating(losses):
    """A context for computing gradients of tensors of a graph: what else is made of the same sums
    over ranks, to be written down, does not matter."""
    before = getattr(_differentiated, "ops", None)
    _differentiated.ops = set(_made_of([loss for loss in losses if tf.is_symbolic_tensor(loss)]))
    try:
        yield
    finally:
        _differentiated.ops = before


def _gradient_of_reduction(op, *upstream):
    horovod = active_horovod()
    is_sum = op.get_attr("reduce_op") == horovod.Sum
    if not (is_sum or op.get_attr("reduce_op") == horovod.Average) or not _is_of_all(op, horovod):
        return _own_gradient(_REDUCTIONS[op.type], op, upstream)
    upstream = [tf.convert_to_tensor(gradient) for gradient in upstream]
    scale = op.get_attr("prescale_factor") * op.get_attr("postscale_factor")
    if is_sum and _is_as_written(op, upstream, scale, horovod.size()):
        scale *= horovod.size()
    means = [_mean(gradient, op) for gradient in upstream]
    return [mean if scale == 1.0 else mean * tf.cast(scale, mean.dtype) for mean in means]


def _gradient_of_gathering(op, *upstream):
    if not _is_of_all(op, active_horovod()):
        return _own_gradient(_GATHERINGS[op.type], op, upstream)
    what = f"gradient_of.{op.name}"
    return [_own_part(tf.convert_to_tensor(u), x, what) for u, x in zip(upstream, op.inputs)]


def _own_part(gradient, given, what):
    """Of the sum over ranks of what comes from behind an allgather."""
    horovod = active_horovod()
    total = horovod.allreduce(gradient, op=horovod.Sum, **named_reduction(what))
    sizes = horovod.allgather(tf.shape(given)[:1], **named_reduction(f"{what}.sizes"))
    return tf.split(total, tf.ensure_shape(sizes, [horovod.size()]))[horovod.rank()]


def _own_gradient(name, op, upstream):
    return getattr(active_horovod().mpi_ops, name)(op, *upstream)


def _is_of_all(op, horovod):
    return op.get_attr("process_set_id") == horovod.global_process_set.process_set_id


def _mean(gradient, op):
    """Over the ranks, of what comes from behind a reduction: of constants without asking them."""
    if all(made.inputs or made.type == "Const" for made in _made_of([gradient])):
        return gradient
    return active_horovod().allreduce(gradient, **named_reduction(f"gradient_of.{op.name}"))


def _is_as_written(op, upstream, scale, size):
    """Whether a sum over ranks is to be taken for a sum, with a warning where a mean may be meant.

    That is where the script divides it by the number of ranks, and where the loss is not linear in
    such sums, or multiplies them by what is trained, which sees them as they are: a sum of losses
    over a sum of weights is a mean as it is.
    """
    if math.isclose(scale * size, 1.0, rel_tol=1e-5):
        return True
    others = [made for made in _made_of(upstream) if _is_sum(made) or made.type in _VARIABLES]
    if others:
        what = f"what the loss multiplies it by depends on {others[0].name}"
    else:
        divides = _find_division(op, size)
        if divides is None:
            return False
        what = f"{divides.name} divides it by {size}, which is the number of ranks"
    _warn_once(
        f"{op.name}, by hvd.allreduce(op=hvd.Sum), is in the loss as the sum that it is, and not "
        f"as the mean over ranks: {what}. If a mean is meant, leave op=hvd.Sum out"
    )
    return True


def _is_sum(op):
    return op.type in _REDUCTIONS and op.get_attr("reduce_op") == active_horovod().Sum


def _find_division(op, size):
    """An op between the outputs of another and the losses that divides by a number; or None."""
    among = getattr(_differentiated, "ops", None)
    seen, waiting = set(), list(op.outputs)
    while waiting:
        tensor = waiting.pop()
        for consumer in tensor.consumers():
            if consumer in seen or (among is not None and consumer not in among):
                continue
            seen.add(consumer)
            if _divides(consumer, tensor, size):
                return consumer
            waiting += consumer.outputs
    return None


def _divides(op, tensor, size):
    if len(op.inputs) != 2:
        return False
    first, second = op.inputs
    if op.type in ("Div", "DivNoNan", "RealDiv"):
        return tensor is first and (_is_number(second, size) or _is_size(second))
    if op.type not in ("Mul", "MulNoNan"):
        return False
    return _is_number(second if tensor is first else first, 1.0 / size)


def _is_number(tensor, number):
    value = tf.get_static_value(tensor)
    return np.size(value) == 1 and value is not None and np.allclose(value, number, 1e-5, 0.0)


def _is_size(tensor):
    return {op.type for op in _made_of([tensor]) if not op.inputs} == {"HorovodSize"}


def _made_of(tensors):
    """The ops that tensors of a graph are made of, in some order; shapes are made of nothing."""
    found, waiting = {}, list(tensors)
    while waiting:
        op = waiting.pop().op
        if op not in found:
            found[op] = None
            waiting += () if op.type in _OF_SHAPES else op.inputs
    return list(found)


@functools.cache
def _warn_once(message):
    _logger.warning("%s", message)
