# SPDX-License-Identifier: Apache-2.0
"""Gradients through Horovod's collectives, for ranks that train as one process, in graphs.

Such ranks average their gradients afterwards. So the gradient of a collective is here exactly the
derivative of the sum of all ranks' losses. Horovod's own gradient is that divided by the number of
ranks for allgather and broadcast, and multiplied by it for reducescatter.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from contextlib import AbstractContextManager

import tensorflow as tf

from sok_compat.ranks.collectives import named_reduction
from sok_compat.ranks.horovod.communicator import active_horovod

_PREFIX = "SokCompat"  # of the names of gradients, followed by the type of the op

# Returns whether the ranks train as one; None if they never do.
_is_in_force: Callable[[], bool] | None = None
# The end of the error for a sum that is differentiated; None if sums have gradients.
_way_out_of_sums: str | None = None


def train_as_one(is_in_force: Callable[[], bool], way_out_of_sums: str | None = None) -> None:
    """Gives these gradients to collectives that Horovod's helpers add to graphs from now on.

    Args:
      is_in_force: returns whether the graph being built is one of ranks that train as one.
      way_out_of_sums: None if sums over ranks have a gradient. Otherwise differentiating a sum
        raises, and this ends the message: "if the sum is meant, ...".
    """
    global _is_in_force, _way_out_of_sums
    _is_in_force, _way_out_of_sums = is_in_force, way_out_of_sums
    _register_gradients()


@functools.cache
def _register_gradients():
    for op_type, gradient in _gradients().items():
        tf.RegisterGradient(_PREFIX + op_type)(gradient)


def _gradients():
    """{type of op: its gradient}; Horovod's own gradient of alltoall is exact."""
    return {
        "HorovodAllreduce": _gradient_of_reduction,
        "HorovodGroupedAllreduce": _gradient_of_reduction,
        "HorovodAllgather": _gradient_of_gathering,
        "HorovodGroupedAllgather": _gradient_of_gathering,
        "HorovodReducescatter": _gradient_of_scattering,
        "HorovodGroupedReducescatter": _gradient_of_scattering,
        "HorovodBroadcast": _gradient_of_broadcast,
    }


def with_gradients() -> AbstractContextManager[None]:
    """Context in which new collectives get these gradients, if the ranks train as one."""
    if _is_in_force is None or tf.executing_eagerly() or not _is_in_force():
        return contextlib.nullcontext()
    types = {op_type: _PREFIX + op_type for op_type in _gradients()}
    return tf.compat.v1.get_default_graph().gradient_override_map(types)


def _gradient_of_reduction(op, *upstream):
    scale = _scale_of_mean(op)
    return [_mean(gradient, op, scale) for gradient in upstream]


def _gradient_of_gathering(op, *upstream):
    size = _process_set(op).size()
    return [_own_part(_mean(u, op, size), x, op) for u, x in zip(upstream, op.inputs)]


def _gradient_of_scattering(op, *upstream):
    gather, scale = active_horovod().allgather, _scale_of_mean(op) / _process_set(op).size()
    return [_scaled(_over_ranks(gather, gradient, op), scale) for gradient in upstream]


def _gradient_of_broadcast(op, upstream):
    total = _mean(upstream, op, _process_set(op).size())
    if active_horovod().rank() == op.get_attr("root_rank"):
        return total
    return tf.raw_ops.ZerosLike(x=total)  # depends on the sum, in which all ranks take part


def _mean(gradient, op, scale):
    """The mean over a collective's ranks, times `scale`; hvd.Sum would have no gradient."""
    return _scaled(_over_ranks(active_horovod().allreduce, gradient, op), scale)


def _own_part(total, given, op):
    ranks = _process_set(op)
    sizes = _over_ranks(active_horovod().allgather, tf.shape(given)[:1], op, ".sizes")
    return tf.split(total, tf.ensure_shape(sizes, [ranks.size()]))[ranks.rank()]


def _over_ranks(collective, tensor, op, of_what=""):
    """A collective of the same ranks as `op`, for its gradient."""
    # TensorFlow folds constants: it would run a collective of them once for each set of fetches,
    # and wait for ranks with no new fetches. This 1 is known only in a step, which prevents that.
    ranks, tensor = _process_set(op), tf.convert_to_tensor(tensor)
    one = active_horovod().size_op(ranks.process_set_id) // ranks.size()
    name = named_reduction(f"gradient_of.{op.name}{of_what}")
    return collective(tensor * tf.cast(one, tensor.dtype), process_set=ranks, **name)


def _process_set(op):
    return active_horovod().mpi_ops._temp_process_set_object(op.get_attr("process_set_id"))


def _scaled(gradient, scale):
    return gradient if scale == 1.0 else gradient * tf.cast(scale, gradient.dtype)


def _scale_of_mean(op):
    """Quotient of a reduction's result and the mean of its inputs.

    Raises:
      ValueError: the reduction is a sum, and sums are refused.
      NotImplementedError: it is neither a sum nor a mean.
    """
    horovod, reduction = active_horovod(), op.get_attr("reduce_op")
    if reduction == horovod.Sum and _way_out_of_sums is not None:
        raise ValueError(
            f"a gradient would flow through {op.name}, which reduces by hvd.Sum, and nobody can "
            "tell whether the loss is to grow with the number of ranks. If the mean over ranks is "
            f"meant, write op=hvd.Average; if the sum is meant, {_way_out_of_sums}"
        )
    if reduction not in (horovod.Sum, horovod.Average):
        names = [n for n in ("Adasum", "Max", "Min", "Product") if getattr(horovod, n) == reduction]
        raise NotImplementedError(
            f"a gradient would flow through {op.name}, which reduces by hvd.{'/'.join(names)}: "
            "only hvd.Sum and hvd.Average have one here; apply tf.stop_gradient to its input, or "
            "leave it out of the loss"
        )
    scale = op.get_attr("prescale_factor") * op.get_attr("postscale_factor")
    return scale * (_process_set(op).size() if reduction == horovod.Sum else 1)
