# SPDX-License-Identifier: Apache-2.0
"""Gradients under the strategy 'collective': means over ranks, whoever computes them.

Each is averaged once: by the optimizer that computes it, by `tf.gradients`, by a wrapper of
Horovod's, or else by the optimizer that applies it.
"""

import tensorflow.compat.v1 as tf

from sok_compat.deeprec.collective.distributed_strategy import is_collective
from sok_compat.deeprec.variables.embedding_variable import (
    EmbeddingVariable,
    PartitionedEmbeddingVariable,
)
from sok_compat.lookup.admission import count_by_applied, counting_by
from sok_compat.ranks.collectives import named_reduction
from sok_compat.ranks.horovod.communicator import active_horovod
from sok_compat.ranks.horovod.helpers import is_computed_for_wrapper
from sok_compat.ranks.shared_gradients import is_reduced, mark, mark_reduced
from sok_compat.runtime.tf_versions import Variable
from sok_compat.tables.table import is_shared_table
from sok_compat.training import clipping


class AveragesGradients:
    """Before a tf.compat.v1.train.Optimizer: averages over ranks what it computes and applies."""

    def minimize(self, loss, global_step=None, *args, **kwargs):
        """As of tf.compat.v1.train; keys are counted in that step."""
        with counting_by(global_step):
            return super().minimize(loss, global_step, *args, **kwargs)

    def compute_gradients(self, loss, var_list=None, *args, **kwargs):
        """As of tf.compat.v1.train, of the mean of the ranks' losses; an embedding variable of
        several parts stands for them."""
        var_list = None if var_list is None else _parts_of(tf.nest.flatten(var_list))
        computed = super().compute_gradients(loss, var_list, *args, **kwargs)
        averages = is_collective() and not is_computed_for_wrapper()
        return _averages(computed) if averages else computed

    def apply_gradients(self, grads_and_vars, global_step=None, *args, **kwargs):
        """As of tf.compat.v1.train, of means over the ranks; keys are counted in that step."""
        pairs = list(grads_and_vars)
        if any(isinstance(v, EmbeddingVariable) and g is not None for g, v in pairs):
            count_by_applied(global_step)
        pairs = _averages(pairs) if is_collective() else pairs
        return super().apply_gradients(pairs, global_step, *args, **kwargs)


def gradients(ys, xs, *args, **kwargs):
    """`tf.gradients`; under the strategy 'collective', those of scalars by variables are of the
    mean of the ranks' values."""
    values = list(ys) if isinstance(ys, (list, tuple)) else [ys]
    are_losses = all(isinstance(y, tf.Tensor) and y.shape.rank == 0 for y in values)
    computed = tf.gradients(ys, xs, *args, **kwargs)
    if not is_collective() or not are_losses:
        return computed
    sources = list(xs) if isinstance(xs, (list, tuple)) else [xs]
    pairs = zip(computed, sources)
    return [_averages([pair])[0][0] if isinstance(pair[1], Variable) else pair[0] for pair in pairs]


def clip_by_global_norm(t_list, clip_norm, use_norm=None, name=None):
    """`tf.clip_by_global_norm`; under the strategy 'collective', with the norm over all ranks."""
    clip = clipping.clip_by_global_norm if is_collective() else tf.clip_by_global_norm
    return clip(t_list, clip_norm, use_norm, name)


def _parts_of(variables):
    parts = []
    for variable in variables:
        parts += variable if isinstance(variable, PartitionedEmbeddingVariable) else [variable]
    return parts


def _averages(grads_and_vars):
    """[(mean over ranks, variable)], by names that depend on nothing else in the graph: scripts may
    reduce them once more, and Horovod goes by names."""
    with tf.name_scope("over_ranks/"):
        return [(_average(gradient, variable), variable) for gradient, variable in grads_and_vars]


def _average(gradient, variable):
    if gradient is None or is_reduced(gradient):
        return gradient
    table = variable if is_shared_table(variable) else None
    if table is None and isinstance(variable, EmbeddingVariable):
        raise RuntimeError(
            f"the embedding variable {variable.table_name} was made for this process alone: call "
            "tf.config.experimental.enable_distributed_strategy, or CollectiveStrategy(), before"
        )
    return _average_over_ranks(gradient, table, variable.op.name)


def _average_over_ranks(gradient, table, name):
    """The mean over ranks, which `is_reduced` knows.

    Args:
      gradient: of a variable; of a table as it comes, a sum over ranks.
      table: the Table that it is a gradient of, if it has rows on several ranks; else None.
      name: of the variable.
    """
    horovod = active_horovod()
    if table is not None:
        return horovod.allreduce(mark(gradient, table))  # which then only divides it
    if not isinstance(gradient, tf.IndexedSlices):
        return mark_reduced(horovod.allreduce(gradient, **named_reduction(name)))
    values, indices = (  # as hvd.allreduce does with slices, but by names
        horovod.allgather(tensor, **named_reduction(f"{name}.{part}"))
        for tensor, part in ((gradient.values, "values"), (gradient.indices, "indices"))
    )
    values = tf.divide(values, tf.cast(horovod.size(), values.dtype), name="mean_of_values")
    return mark_reduced(tf.IndexedSlices(values, indices, gradient.dense_shape))


NAMES = {"clip_by_global_norm": clip_by_global_norm, "gradients": gradients}
