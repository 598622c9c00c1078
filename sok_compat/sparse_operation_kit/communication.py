# SPDX-License-Identifier: Apache-2.0
"""`init` of SparseOperationKit 2, and its collectives between ranks, by Horovod."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.ranks.current_job import active_job, start_job
from sok_compat.ranks.horovod.communicator import HOROVOD
from sok_compat.ranks.identity import Ranks, current_ranks
from sok_compat.ranks.job import Job
from sok_compat.ranks.launched import launched_size
from sok_compat.sparse_operation_kit.core.initialization import tell_tensorflow_of_tables
from sok_compat.tables.known_tables import connected_ranks

_comm_tool: str | None = None  # of `init`; None: it has not been called


def init(comm_tool: str = HOROVOD, use_legacy_optimizer: bool = True) -> None:
    """Initializes Horovod, and prepares variables for the process. API of SparseOperationKit 2.

    Without Horovod and with one process, that process trains alone. May be called again.

    Args:
      comm_tool: 'horovod'.
      use_legacy_optimizer: ignored: `OptimizerWrapper` takes optimizers of either kind, and
        tf.keras.optimizers stays as it is.

    Raises:
      RuntimeError: comm_tool is another; another rank does not call init.
      ImportError: Horovod cannot be imported or initialized.
    """
    del use_legacy_optimizer
    set_comm_tool(comm_tool)
    start_job("sok.init")
    connected_ranks("sok.init")
    tell_tensorflow_of_tables()


def set_comm_tool(comm_tool: str) -> None:
    """Chooses the library of collectives; `init` calls it. API of SparseOperationKit 2.

    Args:
      comm_tool: 'horovod'.

    Raises:
      RuntimeError: comm_tool is not 'horovod'.
    """
    global _comm_tool
    if comm_tool != HOROVOD:
        raise RuntimeError(f"comm_tool must be {HOROVOD!r}, got {comm_tool!r}")
    _comm_tool = comm_tool


def initialized_ranks(user: str) -> Ranks:
    """Returns the Ranks that share the tables; as for `check_initialized`."""
    check_initialized(user)
    tell_tensorflow_of_tables()
    return connected_ranks(user)


def rank() -> int:
    """Returns the rank of this process, from 0. API of SparseOperationKit 2."""
    return _ranks("rank").rank


def num_ranks() -> int:
    """Returns the number of ranks. API of SparseOperationKit 2."""
    return _ranks("num_ranks").size


def local_rank() -> int:
    """Returns the rank of this process among those of its host. API of SparseOperationKit 2."""
    check_initialized("local_rank")
    return active_job().local_rank()


def id_in_rank() -> int:
    """Returns the number of the device in its rank, 0. API of SparseOperationKit 2."""
    return 0


def num_gpu_per_rank() -> int:
    """Returns the number of devices of a rank, 1. API of SparseOperationKit 2."""
    return 1


def global_gpu_id() -> int:
    """As rank(): a rank is one device. API of SparseOperationKit 2."""
    return rank()


def num_gpus() -> int:
    """As num_ranks(): a rank is one device, also on CPUs. API of SparseOperationKit 2."""
    return num_ranks()


def alltoall(tensor: Any, splits: Any = None) -> tuple[tf.Tensor, tf.Tensor]:
    """Sends slices of a tensor to all ranks. API of SparseOperationKit 2.

    Args:
      tensor: any shape with a first dimension.
      splits: int32 [ranks], how many rows go to each; None: equally many.

    Returns:
      (received rows in the order of ranks, int32 [ranks]: how many came from each).
    """
    job, tensor = _job("alltoall"), tf.convert_to_tensor(tensor)
    if splits is None:
        size = job.size()
        splits = tf.repeat(tf.shape(tensor)[0] // size, size)
    return tuple(job.alltoall(tensor, splits=tf.cast(splits, tf.int32)))


def allreduce(tensor: Any, op: str = "average") -> tf.Tensor:
    """Returns the 'sum', 'average', 'max' or 'min' of a tensor over all ranks.

    API of SparseOperationKit 2.

    Args:
      tensor: of the same shape and dtype on all ranks.
      op: 'sum', 'average', 'max' or 'min'.

    Raises:
      RuntimeError: op is none of these.
    """
    names = {"sum": "Sum", "average": "Average", "max": "Max", "min": "Min"}
    if op not in names:
        raise RuntimeError(f"allreduce: op must be one of {sorted(names)}, got {op!r}")
    job, tensor = _job("allreduce"), tf.convert_to_tensor(tensor)
    return job.allreduce(tensor, op=getattr(job, names[op]))


def allgather(tensor: Any) -> tf.Tensor:
    """Returns the tensors of all ranks, concatenated along the first dimension.

    API of SparseOperationKit 2.

    Args:
      tensor: of the same dtype on all ranks, and the same shape but for the first dimension.
    """
    job, tensor = _job("allgather"), tf.convert_to_tensor(tensor)
    return job.allgather(tensor)


def broadcast(tensor: Any, root: int = 0) -> tf.Tensor:
    """Returns the tensor of rank `root`. API of SparseOperationKit 2.

    Args:
      tensor: of the same shape and dtype on all ranks.
      root: a rank.
    """
    job, tensor = _job("broadcast"), tf.convert_to_tensor(tensor)
    return job.broadcast(tensor, root)


def _ranks(user: str) -> Ranks:
    check_initialized(user)
    return current_ranks()


def _job(user: str) -> Job:
    """The job if there are several ranks."""
    return active_job() if _ranks(user).size > 1 else Job()


def check_initialized(user: str) -> None:
    """Raises RuntimeError, with the name of the caller, if there are several ranks and `init` has
    not been called."""
    is_alone = launched_size() == 1 and current_ranks().size == 1
    if _comm_tool is None and not is_alone:
        raise RuntimeError(f"{user} needs sok.init: call sok.init() first, on all ranks")


__all__ = [
    "allgather",
    "allreduce",
    "alltoall",
    "broadcast",
    "global_gpu_id",
    "id_in_rank",
    "init",
    "local_rank",
    "num_gpu_per_rank",
    "num_gpus",
    "num_ranks",
    "rank",
    "set_comm_tool",
]
