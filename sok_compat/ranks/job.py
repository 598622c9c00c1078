# SPDX-License-Identifier: Apache-2.0
"""The processes that train together: those of Horovod or, where a script has none, those of MPI."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from sok_compat.ranks.collectives import named_reduction
from sok_compat.ranks.horovod.communicator import (
    Collectives,
    active_horovod,
    is_imported,
    launched_size,
    start_horovod,
)
from sok_compat.ranks.mpi import library as mpi_library
from sok_compat.ranks.mpi.connection import MpiConnection
from sok_compat.ranks.mpi.job import MpiJob
from sok_compat.runtime.op_library import c_library

__all__ = [
    "active_job",
    "connection_of",
    "is_started",
    "launched_size",
    "mark_started",
    "start_job",
    "sum_over_ranks",
]

_is_started = False  # see is_started


def active_job(user: str = "tables are made") -> Any:
    """The ranks and their collectives, under the names of horovod.tensorflow; None for one process.

    It is horovod.tensorflow, if the script imported and initialized it; else an MpiJob, if MPI
    started several ranks and the script has not imported Horovod.

    Args:
      user: what needs the ranks, for messages.

    Raises:
      RuntimeError: the script was launched as one of several ranks, but its Horovod is not ready,
        or does not know of them.
    """
    if not is_imported():
        return _mpi_job() if mpi_library.is_usable() else None
    horovod = active_horovod(user)
    started = mpi_library.launched_size() if mpi_library.is_usable() else 1
    if horovod is not None and horovod.size() == 1 < started:
        raise RuntimeError(
            f"MPI started {started} ranks, but Horovod knows only this one, as it was built "
            "without MPI: start them with horovodrun, build Horovod with MPI (make horovod MPI=1), "
            "or do not import Horovod"
        )
    return horovod


def start_job(user: str) -> Any:
    """As active_job; Horovod is imported and initialized unless MPI started the ranks.

    None if Horovod is not installed and there is only one process.

    Args:
      user: what needs the ranks, for messages.

    Raises:
      ImportError: Horovod cannot be imported or initialized.
    """
    is_of_mpi = not is_imported() and mpi_library.is_usable()
    job = _mpi_job() if is_of_mpi else start_horovod(user) and active_job(user)
    mark_started()
    return job


def mark_started() -> None:
    """Notes that hvd.init() of Horovod's stand-in has been called, or start_job."""
    global _is_started
    _is_started = True


def is_started() -> bool:
    """Whether Horovod's stand-in is initialized: by the script, or for it, as Horovod would be."""
    return _is_started


def connection_of(job: Any) -> Collectives | MpiConnection:
    """What connects the ranks of a job below exchanges; all ranks call it."""
    is_of_mpi = isinstance(job, MpiJob)
    if is_of_mpi or (mpi_library.is_usable() and job.mpi_enabled() and _has_same_ranks(job)):
        return MpiConnection(c_library)
    return Collectives(job)


def sum_over_ranks(tensor: tf.Tensor) -> tf.Tensor:
    """The sum of a tensor over all ranks."""
    job = active_job()
    if job is None or job.size() == 1:
        return tensor
    return job.allreduce(tensor, op=job.Sum, **named_reduction("sum"))


@functools.cache
def _mpi_job():
    return MpiJob()


def _has_same_ranks(horovod):
    """Whether MPI numbers the ranks as Horovod does, and lets several threads call it."""
    mpi = mpi_library.library()
    world = mpi.COMM_WORLD
    return (
        mpi.Query_thread() == mpi.THREAD_MULTIPLE
        and (world.Get_rank(), world.Get_size()) == (horovod.rank(), horovod.size())
    )  # fmt: skip
