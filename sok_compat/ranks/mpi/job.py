# SPDX-License-Identifier: Apache-2.0
"""The ranks of MPI, and their collectives.

Collectives are exchanges, as those of lookups are: matched by name, over whichever transport there
is. A sum takes as many bytes as a ring does: each rank sums one part, and sends it to all.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Collection, Iterable
from typing import Any

import tensorflow as tf

from sok_compat.ranks.collectives import begin_collective
from sok_compat.ranks.job import Job, check_options, checked_op
from sok_compat.ranks.launched import mpi_local_rank, mpi_rank, mpi_size
from sok_compat.ranks.mpi.connection import MpiConnection
from sok_compat.ranks.mpi.tape import TapeOfRanks
from sok_compat.ranks.shared_gradients import mark, reduced_table, table_of
from sok_compat.runtime.op_library import c_library, ops
from sok_compat.runtime.tf_versions import keras


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


class MpiJob(Job):
    """What mpiexec or srun started: see the base class."""

    is_initialized = True

    def __init__(self) -> None:
        self._rank, self._size = mpi_rank(), mpi_size()
        self._is_sharded: Callable[[Any], bool] = lambda variable: False

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def local_rank(self) -> int:
        return mpi_local_rank()

    @tf.autograph.experimental.do_not_convert
    def allreduce(
        self,
        tensor: Any,
        average: bool | None = None,
        op: Any = None,
        name: str | None = None,
        **options: Any,
    ) -> Any:
        """See the base class. The gradient is of the same kind; slices become those of all ranks.

        Args:
          tensor: of the same shape on all ranks; or slices.
          name: the same on all ranks; None: by the order of building.
          **options: see there.
        """
        op = checked_op(average, op)
        check_options("allreduce", options)
        table = table_of(tensor)
        if table is not None:
            return mark(reduced_table(tensor, op, self), table)
        if isinstance(tensor, tf.IndexedSlices):
            values, indices = (self.allgather(x) for x in (tensor.values, tensor.indices))
            values = values / self._size if op == self.Average else values
            return tf.IndexedSlices(values, indices, tensor.dense_shape)
        return self._reduced(tf.convert_to_tensor(tensor), op, name or "allreduce")

    @_without_gradient
    def allgather(self, tensor: tf.Tensor, name: str | None = None, **options: Any) -> tf.Tensor:
        """See the base class; the ranks' numbers of rows may differ."""
        check_options("allgather", options)
        return _exchanged(tensor, [], name or "allgather")[0]

    @_without_gradient
    def alltoall(
        self, tensor: tf.Tensor, splits: Any = None, name: str | None = None, **options: Any
    ) -> Any:
        check_options("alltoall", options)
        share = tf.shape(tensor)[0] // self._size
        counts = tf.repeat(share, self._size) if splits is None else splits
        rows, received = _exchanged(tensor, counts, name or "alltoall")
        return rows if splits is None else (rows, received)

    @_without_gradient
    def broadcast(
        self, tensor: tf.Tensor, root_rank: int, name: str | None = None, **options: Any
    ) -> tf.Tensor:
        check_options("broadcast", options)
        splits = [] if self._rank == root_rank else [0] * self._size
        return _exchanged(tensor[tf.newaxis], splits, name or "broadcast")[0][0]

    def broadcast_variables(self, variables: Iterable[tf.Variable], root_rank: int) -> Any:
        dense = [variable for variable in variables if not self._is_sharded(variable)]
        return tf.group(
            [
                variable.assign(self.broadcast(variable.read_value(), root_rank))
                for variable in dense
            ]
        )

    def DistributedOptimizer(self, optimizer: Any, *, op: Any = None, **options: Any) -> Any:
        """See the base class.

        Raises:
          NotImplementedError: an optimizer of another kind, or an option that needs Horovod.
        """
        check_options("DistributedOptimizer", options)
        return _optimizers().optimizer_of_ranks(self, optimizer, op or self.Average)

    def DistributedGradientTape(
        self, gradtape: tf.GradientTape, *, op: Any = None, **options: Any
    ) -> Any:
        check_options("DistributedGradientTape", options)
        return TapeOfRanks(self, gradtape, op or self.Average)

    def broadcast_callback(
        self, root_rank: int, device: str, local_variables: Collection[tf.Variable]
    ) -> keras.callbacks.Callback:
        return _optimizers().BroadcastCallback(self, root_rank, local_variables)

    def adapt_to_tables(self, is_sharded: Callable[[Any], bool], is_connected: bool) -> None:
        self._is_sharded = is_sharded

    def connection(self) -> MpiConnection:
        return MpiConnection(c_library)

    def _reduced(self, tensor, op, name):
        @tf.custom_gradient
        def reduced(tensor):
            total = tf.ensure_shape(self._total(tensor, op, name), tensor.shape)
            if op in (self.Min, self.Max):
                return total, _no_gradient
            if op == self.Average:
                total = total / tf.cast(self._size, total.dtype)
            return total, lambda upstream: self._reduced(upstream, op, f"gradient_of.{name}")

        return reduced(tensor)

    def _total(self, tensor, op, name):
        """The tensors of all ranks, reduced in the order of ranks."""
        extremes = {self.Min: tf.reduce_min, self.Max: tf.reduce_max}

        def reduce(rows):
            rows = tf.reshape(rows, [self._size, -1])
            return extremes[op](rows, 0) if op in extremes else tf.add_n(tf.unstack(rows))

        flat = tf.reshape(tensor, [-1])
        if self._size == 2:
            return tf.reshape(reduce(_exchanged(flat, [], name)[0]), tf.shape(tensor))
        share = tf.size(flat) // self._size
        shares = [share] * (self._size - 1)
        part = reduce(_exchanged(flat, [*shares, tf.size(flat) - sum(shares)], f"{name}.parts")[0])
        return tf.reshape(_exchanged(part, [], name)[0], tf.shape(tensor))


@tf.autograph.experimental.do_not_convert
def _exchanged(rows, splits, name):
    """(rows of all ranks for this one, how many from each); splits: see SokExchangeTensors."""
    with tf.device("CPU:0"):
        splits = tf.cast(splits, tf.int32)
        return ops.sok_exchange_tensors(rows, splits, begin_collective(f"of_ranks.{name}"))


def _no_gradient(upstream):
    del upstream
    raise NotImplementedError("the minimum or maximum over ranks has no gradient")


def _optimizers() -> Any:
    """The module of what needs Keras 2, which not all have."""
    return importlib.import_module("sok_compat.ranks.mpi.optimizers")
