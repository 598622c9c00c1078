# SPDX-License-Identifier: Apache-2.0
"""Functions of horovod.tensorflow on one process or on ranks of MPI, for run/horovod_stand_in.py.

They behave as Horovod 0.28's do on tables (docs/use/distributed.md): a table's gradient is a sum
over ranks already, and broadcasts leave tables out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.ranks.job import active_job, is_started, mark_started
from sok_compat.ranks.mpi.job import MpiJob
from sok_compat.ranks.mpi.keras_helpers import optimizer_of_ranks
from sok_compat.ranks.mpi.library import launched_local_rank
from sok_compat.ranks.mpi.options import Compression, check_options
from sok_compat.ranks.mpi.tape import TapeOfRanks
from sok_compat.runtime.tf_versions import Optimizer, SessionRunHook
from sok_compat.tables.table import connected_ranks

__all__ = [
    "Average",
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "Max",
    "Min",
    "Sum",
    "allgather",
    "allreduce",
    "alltoall",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_variables",
    "grouped_allreduce",
    "init",
    "is_initialized",
    "local_rank",
    "rank",
    "shutdown",
    "size",
]

tf1 = tf.compat.v1
Average, Sum, Min, Max = MpiJob.Average, MpiJob.Sum, MpiJob.Min, MpiJob.Max


def init() -> None:
    """Connects the ranks of MPI; all of them call it. API of Horovod."""
    connected_ranks("hvd.init()")
    mark_started()


def shutdown() -> None:
    """Does nothing: ranks part at the end of their processes. API of Horovod."""


def is_initialized() -> bool:
    """Returns whether `init` has been called, or a function that calls it. API of Horovod."""
    return is_started()


def rank() -> int:
    """Returns the rank of this process, from 0. API of Horovod."""
    job = _job("rank")
    return 0 if job is None else job.rank()


def size() -> int:
    """Returns the number of ranks. API of Horovod."""
    job = _job("size")
    return 1 if job is None else job.size()


def local_rank() -> int:
    """Returns the rank of this process among those of its host. API of Horovod."""
    return 0 if _job("local_rank") is None else launched_local_rank()


@tf.autograph.experimental.do_not_convert
def allreduce(
    tensor: Any, average: bool | None = None, op: str | None = None, **options: Any
) -> Any:
    """Returns the mean over ranks, or with `op` or average=False another reduction. API of Horovod.

    Args:
      tensor: a tensor or IndexedSlices.
      average: whether it is the mean; None: as `op` says.
      op: Average, Sum, Min or Max; None: Average.
      **options: Horovod's others, of which those that would change the numbers raise.

    Raises:
      ValueError: average and op are both given.
      NotImplementedError: an option needs Horovod.
    """
    if average is not None and op is not None:
        raise ValueError("hvd.allreduce takes one of op and average, not both")
    check_options("hvd.allreduce", options)
    op = op or (Sum if average is False else Average)
    job = _job("allreduce")
    return tensor if job is None else job.allreduce(tensor, op=op)


@tf.autograph.experimental.do_not_convert
def grouped_allreduce(tensors: Sequence[Any], *args: Any, **options: Any) -> list[Any]:
    """Returns allreduce of each tensor. API of Horovod."""
    return [allreduce(tensor, *args, **options) for tensor in tensors]


@tf.autograph.experimental.do_not_convert
def allgather(tensor: Any, **options: Any) -> tf.Tensor:
    """Returns the rows of all ranks, one below the other. API of Horovod."""
    check_options("hvd.allgather", options)
    job = _job("allgather")
    return tf.convert_to_tensor(tensor) if job is None else job.allgather(tensor)


@tf.autograph.experimental.do_not_convert
def alltoall(tensor: Any, splits: Any = None, **options: Any) -> Any:
    """Returns the rows that all ranks send to this one; with splits, (rows, how many from each).

    API of Horovod.

    Args:
      tensor: rows, those for rank 0 first.
      splits: int32 [ranks], how many for each; None: as many for each.
      **options: see allreduce.
    """
    check_options("hvd.alltoall", options)
    job = _job("alltoall")
    if job is None:
        tensor = tf.convert_to_tensor(tensor)
        return tensor if splits is None else (tensor, tf.convert_to_tensor(splits))
    return job.alltoall(tensor, splits)


@tf.autograph.experimental.do_not_convert
def broadcast(tensor: Any, root_rank: int, **options: Any) -> tf.Tensor:
    """Returns the tensor of one rank. API of Horovod."""
    check_options("hvd.broadcast", options)
    job = _job("broadcast")
    return tf.convert_to_tensor(tensor) if job is None else job.broadcast(tensor, root_rank)


@tf.autograph.experimental.do_not_convert
def broadcast_variables(variables: Iterable[tf.Variable], root_rank: int) -> Any:
    """Gives all ranks one rank's values of variables, but for tables. API of Horovod."""
    job = _job("broadcast_variables")
    return tf.group() if job is None else job.broadcast_variables(variables, root_rank)


def broadcast_global_variables(root_rank: int) -> Any:
    """As broadcast_variables, for those of the graph. API of Horovod."""
    return broadcast_variables(tf1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(SessionRunHook):
    """Broadcasts the graph's variables when a session starts. API of Horovod."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        """
        Args:
          root_rank: the rank whose values all get.
          device: ignored.
        """
        self._root_rank = root_rank
        self._broadcast: Any = None

    def begin(self) -> None:
        """Creates the ops."""
        if self._broadcast is None or self._broadcast.graph is not tf1.get_default_graph():
            self._broadcast = broadcast_global_variables(self._root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs them."""
        session.run(self._broadcast)


class _OptimizerOfRanks(Optimizer):
    """A tf.compat.v1.train.Optimizer that computes gradients of all ranks."""

    def __init__(self, job: MpiJob, optimizer: Optimizer, op: str) -> None:
        super().__init__(use_locking=False, name=f"Distributed{type(optimizer).__name__}")
        self._job = job
        self._optimizer = optimizer
        self._op = op

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, tf.Variable]]:
        """See the base class."""
        return self._job.reduced(self._optimizer.compute_gradients(*args, **kwargs), self._op)

    def apply_gradients(self, *args: Any, **kwargs: Any) -> tf.Operation:
        """See the base class."""
        return self._optimizer.apply_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> tf.Variable:
        """See the base class."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self) -> list[str]:
        """See the base class."""
        return self._optimizer.get_slot_names()

    def variables(self) -> list[tf.Variable]:
        """See the base class."""
        return self._optimizer.variables()


def DistributedOptimizer(  # noqa: N802  as there
    optimizer: Any, *, op: str = Average, **options: Any
) -> Any:
    """Returns an optimizer that applies the gradients of all ranks. API of Horovod.

    Args:
      optimizer: of tf.compat.v1.train, or of Keras 2.
      op: Average or Sum.
      **options: see allreduce.

    Raises:
      NotImplementedError: an optimizer of another kind, or an option that needs Horovod.
    """
    check_options("hvd.DistributedOptimizer", options)
    job = _job("DistributedOptimizer")
    if job is None:
        return optimizer
    wrapped = (
        _OptimizerOfRanks if isinstance(optimizer, tf1.train.Optimizer) else optimizer_of_ranks
    )
    return wrapped(job, optimizer, op)


def DistributedGradientTape(  # noqa: N802  as there
    gradtape: tf.GradientTape, *, op: str = Average, **options: Any
) -> Any:
    """Returns a tape whose gradients are those of all ranks. API of Horovod.

    Args:
      gradtape: the tape of this rank's loss.
      op: Average or Sum.
      **options: see allreduce.
    """
    check_options("hvd.DistributedGradientTape", options)
    job = _job("DistributedGradientTape")
    return gradtape if job is None else TapeOfRanks(job, gradtape, op)


def _job(user):
    """The MpiJob; None for one process."""
    if not is_started():
        raise ValueError(f"call hvd.init() before hvd.{user}")
    job = active_job()
    return None if job is None or job.size() == 1 else job
