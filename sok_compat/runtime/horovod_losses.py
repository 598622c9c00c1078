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
_GATHERINGS = ("HorovodAllgather", "HorovodGroupedAllgather")
_SCATTERINGS = ("HorovodReducescatter", "HorovodGroupedReducescatter")
_BROADCASTS = ("HorovodBroadcast",)  # Horovod's own gradient of alltoall is the one meant here
_OF_SHAPES = {"BroadcastGradientArgs", "OnesLike", "Rank", "Shape", "ShapeN", "Size", "ZerosLike"}

_VARIABLES = {"VarHandleOp", "Variable", "VariableV2"}
_DIVISIONS = {"Div", "DivNoNan", "RealDiv"}
_OF_ONE = {"Cast", "ExpandDims", "Identity", "Reshape", "Squeeze"}  # that keep all numbers

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
    for op_type, gradient in _gradients().items():
        tf.RegisterGradient(_PREFIX + op_type)(gradient)


def _gradients():
    """{type of op: its gradient}."""
    return {
        **dict.fromkeys(_REDUCTIONS, _gradient_of_reduction),
        **dict.fromkeys(_GATHERINGS, _gradient_of_gathering),
        **dict.fromkeys(_SCATTERINGS, _gradient_of_scattering),
        **dict.fromkeys(_BROADCASTS, _gradient_of_broadcast),
    }


def with_gradients():
    """A context for making collectives, in which they have these gradients if that is in force."""
    if _is_in_force is None or tf.executing_eagerly() or not _is_in_force():
        return contextlib.nullcontext()
    types = {op_type: _PREFIX + op_type for op_type in _gradients()}
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
    is_sum = _is_checked_sum(op)
    if not _is_of_all(op, horovod):
        return getattr(horovod.mpi_ops, _REDUCTIONS[op.type])(op, *upstream)
    upstream = [tf.convert_to_tensor(gradient) for gradient in upstream]
    scale = _scale(op)
    if is_sum and _is_as_written(op, upstream, scale, horovod.size()):
        scale *= horovod.size()
    return [_scaled(_mean(gradient, op), scale) for gradient in upstream]


def _gradient_of_gathering(op, *upstream):
    return [_own_part(_total(u, op), x, op) for u, x in zip(upstream, op.inputs)]


def _gradient_of_scattering(op, *upstream):
    """As the reduction is written: what one rank has of it is no loss that all ranks have."""
    scale = _scale(op) / (1 if _is_checked_sum(op) else _process_set(op).size())
    return [
        active_horovod().allgather(_scaled(tf.convert_to_tensor(gradient), scale), **_as(op))
        for gradient in upstream
    ]


def _gradient_of_broadcast(op, upstream):
    total = _total(upstream, op)
    if active_horovod().rank() == op.get_attr("root_rank"):
        return total
    return tf.raw_ops.ZerosLike(x=total)  # an op that needs it: all ranks take part in the sum


def _total(gradient, op):
    """The sum over the ranks of a collective of what comes from behind it."""
    horovod = active_horovod()
    return horovod.allreduce(tf.convert_to_tensor(gradient), op=horovod.Sum, **_as(op))


def _own_part(total, given, op):
    ranks = _process_set(op)
    sizes = active_horovod().allgather(tf.shape(given)[:1], **_as(op, ".sizes"))
    return tf.split(total, tf.ensure_shape(sizes, [ranks.size()]))[ranks.rank()]


def _as(op, of_what=""):
    """Arguments of a collective of the same ranks, for the gradient of one."""
    name = named_reduction(f"gradient_of.{op.name}{of_what}")
    return {**name, "process_set": _process_set(op)}


def _process_set(op):
    horovod = active_horovod()
    if _is_of_all(op, horovod):
        return horovod.global_process_set
    return horovod.mpi_ops._temp_process_set_object(op.get_attr("process_set_id"))


def _is_of_all(op, horovod):
    return op.get_attr("process_set_id") == horovod.global_process_set.process_set_id


def _scale(op):
    return op.get_attr("prescale_factor") * op.get_attr("postscale_factor")


def _scaled(gradient, scale):
    return gradient if scale == 1.0 else gradient * tf.cast(scale, gradient.dtype)


def _is_checked_sum(op):
    """Whether a reduction is a sum, or else a mean.

    Raises:
      NotImplementedError: it is another one.
    """
    horovod, reduction = active_horovod(), op.get_attr("reduce_op")
    if reduction in (horovod.Sum, horovod.Average):
        return reduction == horovod.Sum
    names = [n for n in ("Adasum", "Max", "Min", "Product") if getattr(horovod, n) == reduction]
    raise NotImplementedError(
        f"a gradient would flow through {op.name}, which reduces by hvd.{'/'.join(names)}: only "
        "hvd.Sum and hvd.Average have one here; take tf.stop_gradient of what it reduces, or leave "
        "it out of the loss"
    )


def _mean(gradient, op):
    """Over the ranks, of what comes from behind a reduction: of the ones that gradients start with,
    which all ranks have, without asking them."""
    value = tf.get_static_value(gradient)
    if value is not None and np.all(value == 1.0):
        return gradient
    return active_horovod().allreduce(gradient, **_as(op))


def _is_as_written(op, upstream, scale, size):
    """Whether a sum over ranks is to be taken for a sum, with a warning where a mean may be meant.

    That is where the script divides it, or right before what is summed, by the number of ranks, and
    where the loss is not linear in such sums, or multiplies them by what is trained, which sees
    them as they are: a sum of losses over a sum of weights is a mean as it is.
    """
    if math.isclose(scale * size, 1.0, rel_tol=1e-5):
        return True
    others = [made for made in _made_of(upstream) if _is_sum(made) or made.type in _VARIABLES]
    if others:
        what = f"what the loss multiplies it by depends on {others[0].name}"
    else:
        divides = _division_before(op, size) or _find_division(op, size)
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


def _division_before(op, size):
    """An op that divides by the number of ranks what is summed, as the last one; or None."""
    for tensor in op.inputs:
        while tensor.op.type in _OF_ONE:
            tensor = tensor.op.inputs[0]
        if tensor.op.type in _DIVISIONS and _divides(tensor.op, tensor.op.inputs[0], size):
            return tensor.op
    return None


def _divides(op, tensor, size):
    if len(op.inputs) != 2:
        return False
    first, second = op.inputs
    if op.type in _DIVISIONS:
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
            waiting += _what_it_is_made_of(op)
    return list(found)


def _what_it_is_made_of(op):
    if op.type in _OF_SHAPES:
        return ()
    if op.type == "StackPopV2":  # in the gradient of a loop, what the loop has kept for it
        return _pushed(op.inputs[0])
    if op.type == "Placeholder" and hasattr(op.graph, "captures"):
        return [outer for outer, inner in op.graph.captures if inner is op.outputs[0]]
    return op.inputs


def _pushed(stack):
    while stack.op.type == "Enter":
        stack = stack.op.inputs[0]
    pushed, waiting = [], [stack]
    while waiting:
        for consumer in waiting.pop().consumers():
            if consumer.type == "Enter":
                waiting += consumer.outputs
            elif consumer.type == "StackPushV2":
                pushed.append(consumer.inputs[1])
    return pushed


@functools.cache
def _warn_once(message):
    _logger.warning("%s", message)
