# SPDX-License-Identifier: Apache-2.0
"""Gradients under the strategy 'collective': averages over ranks.

Each gradient is averaged once: by the optimizer or `tf.gradients` that computes it, by a Horovod
wrapper, or else by the optimizer that applies it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import tensorflow.compat.v1 as tf

from sok_compat.deeprec.collective.distributed_strategy import is_collective
from sok_compat.deeprec.collective.micro_batches import mean_gradients
from sok_compat.deeprec.variables.embedding_variable import (
    EmbeddingVariable,
    PartitionedEmbeddingVariable,
)
from sok_compat.lookup.gradients.admission import (
    count_by_applied,
    counting_by,
    gradients_of_waiting_keys,
    include_waiting_keys,
)
from sok_compat.ranks.collectives import named_reduction
from sok_compat.ranks.current_job import active_job
from sok_compat.ranks.horovod.helpers import is_computed_for_wrapper
from sok_compat.ranks.shared_gradients import is_reduced, mark, mark_reduced
from sok_compat.runtime.tf_versions import Variable
from sok_compat.tables.known_tables import is_shared_table

if TYPE_CHECKING:
    from tensorflow.compat.v1.train import Optimizer as _Optimizer
else:
    _Optimizer = object

_Gradient = Any  # a tf.Tensor, tf.IndexedSlices or None


class AveragesGradients(_Optimizer):
    """Mixin before a tf.compat.v1.train.Optimizer: averages its gradients over ranks."""

    def minimize(
        self, loss: tf.Tensor, global_step: tf.Variable | None = None, *args: Any, **kwargs: Any
    ) -> tf.Operation:
        """As Optimizer.minimize; counts keys under this global step."""
        with counting_by(global_step):
            return super().minimize(loss, global_step, *args, **kwargs)

    def compute_gradients(
        self, loss: tf.Tensor, var_list: Any = None, *args: Any, **kwargs: Any
    ) -> list[tuple[_Gradient, tf.Variable]]:
        """As Optimizer.compute_gradients, of the mean loss over ranks.

        Replaces partitioned embedding variables in var_list by their parts.
        """
        var_list = None if var_list is None else _parts_of(tf.nest.flatten(var_list))
        with gradients_of_waiting_keys():
            computed = super().compute_gradients(loss, var_list, *args, **kwargs)
        averages = is_collective() and not is_computed_for_wrapper()
        return _averages(computed) if averages else computed

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[_Gradient, tf.Variable]],
        global_step: tf.Variable | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> tf.Operation:
        """As Optimizer.apply_gradients, of averages over ranks; counts keys under global_step."""
        pairs = list(grads_and_vars)
        if any(isinstance(v, EmbeddingVariable) and g is not None for g, v in pairs):
            count_by_applied(global_step)
        for gradient, variable in pairs:
            if isinstance(variable, EmbeddingVariable) and isinstance(gradient, tf.IndexedSlices):
                include_waiting_keys(gradient.indices)
        pairs = mean_gradients(_averages(pairs) if is_collective() else pairs)
        return super().apply_gradients(pairs, global_step, *args, **kwargs)


def gradients(ys: Any, xs: Any, *args: Any, **kwargs: Any) -> list[_Gradient]:
    """As tf.gradients. API of TensorFlow 1.

    Under the strategy 'collective' gradients of scalars with respect to variables are averages over
    ranks.

    Args:
      ys: a tensor, or a list of them.
      xs: what to differentiate by: a variable or a tensor, or a list of them.
      *args, **kwargs: see tf.gradients.

    Returns:
      A list of a tensor, a tf.IndexedSlices or None for each of xs.
    """
    values = list(ys) if isinstance(ys, (list, tuple)) else [ys]
    are_losses = all(isinstance(y, tf.Tensor) and y.shape.rank == 0 for y in values)
    sources = list(xs) if isinstance(xs, (list, tuple)) else [xs]
    computed = tf.gradients(ys, xs, *args, **kwargs)
    if not is_collective() or not are_losses:
        return computed
    pairs = zip(computed, sources)
    return [_averages([pair])[0][0] if isinstance(pair[1], Variable) else pair[0] for pair in pairs]


def _parts_of(variables: Iterable[Any]) -> list[Any]:
    parts: list[Any] = []
    for variable in variables:
        parts += variable if isinstance(variable, PartitionedEmbeddingVariable) else [variable]
    return parts


def _averages(
    grads_and_vars: Iterable[tuple[_Gradient, tf.Variable]],
) -> list[tuple[_Gradient, tf.Variable]]:
    """[(average over ranks, variable)].

    Op names do not depend on the rest of the graph: scripts may reduce these gradients again, and
    Horovod matches ops by name.
    """
    with tf.name_scope("over_ranks/"):
        return [(_average(gradient, variable), variable) for gradient, variable in grads_and_vars]


def _average(gradient: _Gradient, variable: tf.Variable) -> _Gradient:
    if gradient is None or is_reduced(gradient):
        return gradient
    table = variable if is_shared_table(variable) else None
    if table is None and isinstance(variable, EmbeddingVariable):
        raise RuntimeError(
            f"the embedding variable {variable.table_name} was made for this process alone: call "
            "tf.config.experimental.enable_distributed_strategy, or CollectiveStrategy(), before "
            "making it"
        )
    return _average_over_ranks(gradient, table, variable.op.name)


def _average_over_ranks(gradient: _Gradient, table: Any, name: str) -> _Gradient:
    """The average over ranks, marked for `is_reduced`.

    `table` is the gradient's, if it has rows on several ranks, else None; a table's gradient is
    already the sum over ranks.
    """
    job = active_job()
    if table is not None:
        return job.allreduce(mark(gradient, table))  # the mark makes it only divide
    if not isinstance(gradient, tf.IndexedSlices):
        return mark_reduced(job.allreduce(gradient, **named_reduction(name)))
    values, indices = (  # as hvd.allreduce of slices, but with fixed names
        job.allgather(tensor, **named_reduction(f"{name}.{part}"))
        for tensor, part in ((gradient.values, "values"), (gradient.indices, "indices"))
    )
    values = tf.divide(values, tf.cast(job.size(), values.dtype), name="mean_of_values")
    return mark_reduced(tf.IndexedSlices(values, indices, gradient.dense_shape))
