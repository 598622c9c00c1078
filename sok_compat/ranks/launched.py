# SPDX-License-Identifier: Apache-2.0
"""The number of this process among those that a launcher started, from the environment."""

from __future__ import annotations

import os

# The environment variables of (size, rank) that launchers of MPI set.
LAUNCHERS = (
    ("PMI_SIZE", "PMI_RANK"),  # mpiexec of MPICH and all that follow it; srun --mpi=pmi2
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),  # of Open MPI
    ("SLURM_STEP_NUM_TASKS", "PMIX_RANK"),  # srun --mpi=pmix
)
_LOCAL_VARIABLES = ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")


def launched_size() -> int:
    """The number of ranks that horovodrun, mpiexec or srun started; 1 if none did."""
    return max(_number("HOROVOD_SIZE") or 1, mpi_size())


def mpi_size() -> int:
    """The number of ranks that mpiexec or srun started; 1 if none did."""
    return max(1, _of_mpi()[0])


def mpi_rank() -> int:
    """The rank that it gave this process."""
    return _of_mpi()[1]


def mpi_local_rank() -> int:
    """That among the ranks of its host; 0 if it is unknown."""
    return next((found for found in map(_number, _LOCAL_VARIABLES) if found is not None), 0)


def _of_mpi():
    """(size, rank), of the first launcher that has set both."""
    for size, rank in (map(_number, of_one) for of_one in LAUNCHERS):
        if size is not None and rank is not None:
            return size, rank
    return 1, 0


def _number(variable):
    value = os.environ.get(variable, "")
    return int(value) if value.isdecimal() else None
