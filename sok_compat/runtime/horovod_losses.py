# SPDX-License-Identifier: Apache-2.0
"""Losses that Horovod has summed over ranks, and gradients averaged over them, in graphs."""

import tensorflow as tf

from sok_compat.runtime.horovod_ranks import active_horovod
from sok_compat.runtime.shared_gradients import is_reduced, mark, mark_reduced


def own_part(loss):
    """What this rank has put into a loss: `loss` without the hvd.allreduce around it.

    Of a loss that is itself what hvd.allreduce gives, or a sum or difference of such and other
    tensors; all else is returned as it is, as are reductions by anything but Sum and Average.

    Args:
      loss: a tensor of a graph.
    """
    op = loss.op
    if op.type == "HorovodAllreduce":
        return _input_of_reduction(loss)
    if op.type in _REBUILT:
        parts = [own_part(x) for x in op.inputs]
        if any(part is not x for part, x in zip(parts, op.inputs)):
            return _REBUILT[op.type](parts, loss)
    return loss


_REBUILT = {  # {type of op: a function of its inputs and its output}
    "Identity": lambda inputs, _: inputs[0],
    "Cast": lambda inputs, output: tf.cast(inputs[0], output.dtype),  # of hvd.Compression
    "Add": lambda inputs, _: tf.add(*inputs),
    "AddV2": lambda inputs, _: tf.add(*inputs),
    "AddN": lambda inputs, _: tf.add_n(inputs),
    "Sub": lambda inputs, _: tf.subtract(*inputs),
}


def _input_of_reduction(reduced):
    op, horovod = reduced.op, active_horovod()
    is_of_all = op.get_attr("process_set_id") == horovod.global_process_set.process_set_id
    if op.get_attr("reduce_op") not in (horovod.Sum, horovod.Average) or not is_of_all:
        return reduced
    scale = op.get_attr("prescale_factor") * op.get_attr("postscale_factor")
    return op.inputs[0] if scale == 1.0 else op.inputs[0] * scale


def average_over_ranks(gradient, table=None, name=None):
    """The mean over ranks of a gradient, a tensor or tf.IndexedSlices; `is_reduced` knows it.

    Args:
      gradient: of a variable; of a table as it comes, a sum over ranks.
      table: the Table that it is a gradient of, if it has rows on several ranks.
      name: of the op that reduces a tensor, the same on all ranks.
    """
    if table is not None:
        gradient = mark(gradient, table)  # hvd.allreduce then only divides it
    reduced = active_horovod().allreduce(gradient, name=name)
    return reduced if is_reduced(reduced) else mark_reduced(reduced)
