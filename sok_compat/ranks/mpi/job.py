# SPDX-License-Identifier: Apache-2.0
"""The ranks of MPI and their collectives, under the names of horovod.tensorflow.

Collectives are exchanges, as those of lookups are: matched by name, over whichever transport there
is. Each rank gets what all others sent, which is more bytes than Horovod's ring takes with more
than two ranks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from sok_compat.ranks.collectives import begin_collective
from sok_compat.ranks.mpi.library import launched_local_rank, launched_rank, launched_size
from sok_compat.ranks.shared_gradients import mark, reduced_table, table_of
from sok_compat.runtime.op_library import ops

tf1 = tf.compat.v1


def _without_gradient(collective):
    """A collective of tensors, the first of which must not be differentiated."""

    @functools.wraps(collective)
    @tf.autograph.experimental.do_not_convert
    def raising(self, tensor, *args, **kwargs):
        @tf.custom_gradient
        def collected(tensor):
            def gradient(*upstream):
                raise NotImplementedError(
                    f"{collective.__name__} has no gradient between ranks of MPI: use allreduce"
                )

            return collective(self, tensor, *args, **kwargs), gradient

        return collected(tf.convert_to_tensor(tensor))

    return raising


class MpiJob:
    """What tables and faces need of horovod.tensorflow.

    Attributes:
      is_sharded: returns whether a variable has rows of this rank; once the ranks are connected.
    """

    Average, Sum, Min, Max = "Average", "Sum", "Min", "Max"

    def __init__(self) -> None:
        self._rank, self._size = launched_rank(), launched_size()
        self.is_sharded: Callable[[Any], bool] = lambda variable: False

    def rank(self) -> int:
        """The rank of this process."""
        return self._rank

    def size(self) -> int:
        """The number of ranks."""
        return self._size

    def local_rank(self) -> int:
        """The rank of this process among those of its host."""
        return launched_local_rank()

    @tf.autograph.experimental.do_not_convert
    def allreduce(
        self, tensor: Any, op: str = Average, name: str | None = None, **options: Any
    ) -> Any:
        """The sum, mean, minimum or maximum over ranks, with a gradient of the same kind.

        A table's gradient is a sum already: it is only scaled. Slices become those of all ranks.

        Args:
          tensor: of the same shape on all ranks; or slices.
          op: one of the attributes.
          name: the same on all ranks; None: by the order of building.
          **options: ignored, those of Horovod for names.
        """
        del options
        table = table_of(tensor)
        if table is not None:
            return mark(reduced_table(tensor, op, self), table)
        if isinstance(tensor, tf.IndexedSlices):
            values, indices = (self.allgather(x) for x in (tensor.values, tensor.indices))
            values = values / self._size if op == self.Average else values
            return tf.IndexedSlices(values, indices, tensor.dense_shape)
        return self._reduced(tf.convert_to_tensor(tensor), op, name or "allreduce")

    @_without_gradient
    def allgather(self, tensor: Any, name: str | None = None, **options: Any) -> tf.Tensor:
        """The rows of all ranks, one below the other; the ranks' numbers of rows may differ."""
        del options
        return tf.concat(self._gathered(tf.convert_to_tensor(tensor), name or "allgather"), 0)

    @_without_gradient
    def alltoall(
        self, tensor: Any, splits: Any, name: str | None = None, **options: Any
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """(the rows that all ranks send to this one, how many from each).

        Args:
          tensor: rows, those for rank 0 first.
          splits: int32 [ranks], how many for each.
          name: as for allreduce.
          **options: likewise.
        """
        del options
        name = name or "alltoall"
        rows = self._gathered(tf.convert_to_tensor(tensor), name)
        counts = self._gathered(tf.convert_to_tensor(splits), f"{name}.splits")
        parts = []
        for of_rank, count in zip(rows, counts):
            begin = tf.reduce_sum(count[: self._rank])
            parts.append(of_rank[begin : begin + count[self._rank]])
        return tf.concat(parts, 0), tf.stack([count[self._rank] for count in counts])

    @_without_gradient
    def broadcast(
        self, tensor: Any, root_rank: int, name: str | None = None, **options: Any
    ) -> tf.Tensor:
        """The tensor of one rank."""
        del options
        tensor = tf.convert_to_tensor(tensor)
        text = tf.io.serialize_tensor(tensor) if self._rank == root_rank else tf.constant("")
        texts = _gathered_texts(text, name or "broadcast")
        return tf.ensure_shape(tf.io.parse_tensor(texts[root_rank], tensor.dtype), tensor.shape)

    def broadcast_variables(self, variables: Iterable[tf.Variable], root_rank: int = 0) -> Any:
        """Gives all ranks one rank's values of variables, but for tables and slots."""
        dense = [variable for variable in variables if not self.is_sharded(variable)]
        return tf.group(
            [
                variable.assign(self.broadcast(variable.read_value(), root_rank))
                for variable in dense
            ]
        )

    def broadcast_global_variables(self, root_rank: int) -> Any:
        """As broadcast_variables, for those of the graph."""
        return self.broadcast_variables(tf1.global_variables(), root_rank)

    def _reduced(self, tensor, op, name):
        @tf.custom_gradient
        def reduced(tensor):
            gathered = self._gathered(tensor, name)
            if op in (self.Min, self.Max):
                reduce = tf.reduce_min if op == self.Min else tf.reduce_max
                return reduce(tf.stack(gathered), 0), _no_gradient
            total = tf.add_n(gathered)
            if op == self.Average:
                total = total / tf.cast(self._size, total.dtype)
            return total, lambda upstream: self._reduced(upstream, op, f"gradient_of.{name}")

        return reduced(tensor)

    def _gathered(self, tensor, name):
        """[ranks] of the tensors of all ranks, whose first dimensions may differ."""
        texts = _gathered_texts(tf.io.serialize_tensor(tensor), name)
        gathered = [tf.io.parse_tensor(texts[rank], tensor.dtype) for rank in range(self._size)]
        shape = tensor.shape
        if shape.rank:
            shape = tf.TensorShape([None]).concatenate(shape[1:])
        return [tf.ensure_shape(each, shape) for each in gathered]


@tf.autograph.experimental.do_not_convert
def _gathered_texts(text, name):
    with tf.device("CPU:0"):
        return ops.sok_allgather_strings(text, begin_collective(f"of_ranks.{name}"))


def _no_gradient(upstream):
    del upstream
    raise NotImplementedError("the minimum or maximum over ranks has no gradient")
