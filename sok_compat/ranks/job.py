# SPDX-License-Identifier: Apache-2.0
"""The processes that train together: who they are, and their collectives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.ranks.connection import Connection
from sok_compat.runtime.tf_versions import SessionRunHook, keras

# Options of Horovod's functions that change nothing without it, or nothing but speed.
_WITHOUT_EFFECT = (
    *("name", "use_locking", "device_dense", "device_sparse", "sparse_as_dense", "num_groups"),
    *("groups", "ignore_name_scope"),
)
# The values of others that change nothing.
_AS_USUAL = {
    "compression": "none",
    "backward_passes_per_step": 1,
    "gradient_predivide_factor": 1.0,
    "prescale_factor": 1.0,
    "postscale_factor": 1.0,
    "process_set": None,
}


def check_options(user: str, options: dict[str, Any]) -> None:
    """Raises NotImplementedError for options of a function of Horovod that would change the
    numbers."""
    for name, value in options.items():
        if name not in _WITHOUT_EFFECT and (name not in _AS_USUAL or value != _AS_USUAL[name]):
            raise NotImplementedError(
                f"hvd.{user}({name}={value!r}) needs Horovod, which is not used here; python -m "
                "sok_compat.doctor tells how to install it"
            )


def checked_op(average: bool | None, op: Any) -> Any:
    """The reduction that allreduce's arguments mean.

    Raises:
      ValueError: both are given.
    """
    if average is not None and op is not None:
        raise ValueError("hvd.allreduce takes one of op and average, not both")
    return op or (Job.Sum if average is False else Job.Average)


class Job:
    """Ranks under the names of horovod.tensorflow, whose functions these methods are.

    This class is one process that trains alone; the others are derived from it. A table's gradient
    is a sum over ranks already, and broadcasts leave tables out (docs/use/distributed.md).

    Attributes:
      is_initialized: whether a launcher or the script has made this process a rank, of one or more.
    """

    is_initialized = False
    Average: Any = "Average"
    Sum: Any = "Sum"
    Min: Any = "Min"
    Max: Any = "Max"

    class Compression:
        """Only `none` is known."""

        none = "none"

    def rank(self) -> int:
        """Returns the rank of this process, from 0. API of Horovod."""
        return 0

    def size(self) -> int:
        """Returns the number of ranks. API of Horovod."""
        return 1

    def local_rank(self) -> int:
        """Returns the rank of this process among those of its host. API of Horovod."""
        return 0

    def allreduce(
        self, tensor: Any, average: bool | None = None, op: Any = None, **options: Any
    ) -> Any:
        """Returns the mean over ranks, or another reduction. API of Horovod.

        Args:
          average: whether it is the mean; None: by `op`.
          op: Average, Sum, Min or Max; None: Average.
          **options: Horovod's others, of which those that would change the numbers raise.
        """
        checked_op(average, op)
        check_options("allreduce", options)
        return tensor

    def grouped_allreduce(self, tensors: Sequence[Any], *args: Any, **options: Any) -> list[Any]:
        """Returns allreduce of each tensor. API of Horovod."""
        return [self.allreduce(tensor, *args, **options) for tensor in tensors]

    def allgather(self, tensor: tf.Tensor, **options: Any) -> tf.Tensor:
        """Returns the rows of all ranks, one below the other. API of Horovod."""
        check_options("allgather", options)
        return tf.convert_to_tensor(tensor)

    def alltoall(self, tensor: tf.Tensor, splits: Any = None, **options: Any) -> Any:
        """Returns the rows that all ranks send to this one. API of Horovod.

        With splits, (rows, how many from each).

        Args:
          tensor: rows, those for rank 0 first.
          splits: int32 [ranks], how many for each; None: as many for each.
          **options: as for allreduce.
        """
        check_options("alltoall", options)
        tensor = tf.convert_to_tensor(tensor)
        return tensor if splits is None else (tensor, tf.convert_to_tensor(splits))

    def broadcast(self, tensor: tf.Tensor, root_rank: int, **options: Any) -> tf.Tensor:
        """Returns the tensor of one rank. API of Horovod."""
        check_options("broadcast", options)
        return tf.convert_to_tensor(tensor)

    def broadcast_variables(self, variables: Iterable[tf.Variable], root_rank: int) -> Any:
        """Gives all ranks one rank's values of variables, but for tables. API of Horovod."""
        return tf.group()

    def broadcast_global_variables(self, root_rank: int) -> Any:
        """As broadcast_variables, for those of the graph. API of Horovod."""
        return self.broadcast_variables(tf.compat.v1.global_variables(), root_rank)

    def BroadcastGlobalVariablesHook(self, root_rank: int, device: str = "") -> SessionRunHook:  # noqa: N802
        """Returns a hook that broadcasts variables when a session starts. API of Horovod."""
        del device
        return _BroadcastHook(self, root_rank)

    def DistributedOptimizer(self, optimizer: Any, *, op: Any = None, **options: Any) -> Any:  # noqa: N802
        """Returns an optimizer that applies the gradients of all ranks. API of Horovod.

        Args:
          optimizer: of tf.compat.v1.train, or of Keras 2.
          op: Average (also None) or Sum.
          **options: as for allreduce.
        """
        check_options("DistributedOptimizer", options)
        return optimizer

    def distributed_keras_optimizer(self, optimizer: Any, **options: Any) -> Any:
        """As DistributedOptimizer, of Keras: horovod.tensorflow.keras.DistributedOptimizer."""
        return self.DistributedOptimizer(optimizer, **options)

    def DistributedGradientTape(  # noqa: N802
        self, gradtape: tf.GradientTape, *, op: Any = None, **options: Any
    ) -> Any:
        """Returns a tape whose gradients are those of all ranks. API of Horovod.

        Args:
          gradtape: the tape of this rank's loss.
          op, **options: as for DistributedOptimizer.
        """
        check_options("DistributedGradientTape", options)
        return gradtape

    def broadcast_callback(
        self, root_rank: int, device: str, local_variables: Collection[tf.Variable]
    ) -> keras.callbacks.Callback:
        """Returns a callback that gives all ranks one rank's variables when the first batch ends,
        but for tables, slots and `local_variables`."""
        return keras.callbacks.Callback()

    def adapt_to_tables(self, is_sharded: Callable[[Any], bool], is_connected: bool) -> None:
        """Makes these functions leave tables out, before the first table is made.

        Args:
          is_sharded: returns whether a variable has rows of this rank.
          is_connected: whether tables are shared with other ranks.
        """
        del is_sharded, is_connected

    def uses_mpi(self) -> bool:
        """Whether exchanges may go through MPI, which something else has started."""
        return False

    def connection(self) -> Connection:
        """What connects the ranks below exchanges; all ranks call it."""
        raise NotImplementedError("one process has no connection to others")


class _BroadcastHook(SessionRunHook):
    def __init__(self, job: Job, root_rank: int) -> None:
        self._job = job
        self._root_rank = root_rank
        self._broadcast: Any = None

    def begin(self) -> None:
        """Creates the ops."""
        graph = tf.compat.v1.get_default_graph()
        if self._broadcast is None or self._broadcast.graph is not graph:
            self._broadcast = self._job.broadcast_global_variables(self._root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs them."""
        session.run(self._broadcast)
