# SPDX-License-Identifier: Apache-2.0
"""The job of this process: ranks of Horovod or, where a script has none, those of MPI, or none.

Horovod is optional, and so is MPI: one process trains without either, and ranks that mpiexec or
srun started train without Horovod.
"""

from __future__ import annotations

import functools

import tensorflow as tf

from sok_compat.ranks.collectives import named_reduction
from sok_compat.ranks.connection import Connection
from sok_compat.ranks.horovod.communicator import active_horovod, is_imported, start_horovod
from sok_compat.ranks.horovod.job import HorovodJob
from sok_compat.ranks.job import Job
from sok_compat.ranks.launched import mpi_size
from sok_compat.ranks.mpi import library as mpi_library
from sok_compat.ranks.mpi.connection import MpiConnection
from sok_compat.ranks.mpi.job import MpiJob
from sok_compat.runtime.op_library import c_library

_is_started = False  # see is_started


def active_job(user: str = "tables are made") -> Job:
    """The job of this process: it alone, unless the script has made it one of several ranks.

    That is Horovod's, if the script imported and initialized it; or MPI's, if MPI started several
    ranks and the script has not imported Horovod.

    Raises:
      RuntimeError: the script was launched as one of several ranks, but its Horovod is not ready,
        or does not know of them.
    """
    if not is_imported():
        return _mpi_job() if mpi_library.is_usable() else Job()
    horovod = active_horovod(user)
    started = mpi_size() if mpi_library.is_usable() else 1
    if horovod is not None and horovod.size() == 1 < started:
        raise RuntimeError(
            f"MPI started {started} ranks, but Horovod knows only this one, as it was built "
            "without MPI: start them with horovodrun or, by sok_compat.run.launch, without --mpi; "
            "build Horovod with MPI (HOROVOD_WITH_MPI=1, in sok_compat's folder make horovod "
            "MPI=1); or do not import Horovod"
        )
    return Job() if horovod is None else HorovodJob(horovod)


def start_job(user: str) -> Job:
    """As active_job; Horovod is imported and initialized unless MPI started the ranks.

    Raises:
      ImportError: Horovod cannot be imported or initialized.
    """
    is_of_mpi = not is_imported() and mpi_library.is_usable()
    if not is_of_mpi:
        start_horovod(user)
    mark_started()
    return active_job(user)


def mark_started() -> None:
    """Notes that hvd.init() of Horovod's stand-in has been called, or start_job."""
    global _is_started
    _is_started = True


def is_started() -> bool:
    """Whether Horovod's stand-in is initialized: by the script, or for it, as Horovod would be."""
    return _is_started


def connection_of(job: Job) -> Connection:
    """What connects the ranks of a job below exchanges; all ranks call it."""
    is_mpi_started = job.uses_mpi() and mpi_library.is_usable()
    if is_mpi_started and mpi_library.numbers_alike(job.rank(), job.size()):
        return MpiConnection(c_library)
    return job.connection()


def sum_over_ranks(tensor: tf.Tensor) -> tf.Tensor:
    """The sum of a tensor over all ranks."""
    job = active_job()
    if job.size() == 1:
        return tensor
    return job.allreduce(tensor, op=job.Sum, **named_reduction("sum"))


_mpi_job = functools.cache(MpiJob)
