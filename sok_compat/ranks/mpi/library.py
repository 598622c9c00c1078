# SPDX-License-Identifier: Apache-2.0
"""Whether MPI started this process as one of several ranks; starts and ends MPI in it."""

from __future__ import annotations

import atexit
import functools
import importlib
import importlib.util
import logging
import os
import sys
import time
from typing import Any

_logger = logging.getLogger(__name__)

# mpiexec sets the number of ranks in these: MPICH and all that follow it; Open MPI.
SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
_GLOO_VARIABLE = "HOROVOD_GLOO_RENDEZVOUS_ADDR"  # horovodrun sets it if ranks meet without MPI
_END_SECONDS = 60.0  # for the other ranks to end
POLL_SECONDS = 0.005

_is_broken = False  # a rank was lost: to end MPI would wait for it


def launched_size() -> int:
    """The number of ranks that mpiexec started; 1 if it did not."""
    sizes = [os.environ.get(variable, "") for variable in SIZE_VARIABLES]
    return max(int(size) if size.isdecimal() else 1 for size in sizes)


@functools.cache
def is_usable() -> bool:
    """Whether MPI started this process as one of several ranks, and mpi4py is installed.

    Nothing is imported.
    """
    if launched_size() == 1 or _GLOO_VARIABLE in os.environ:
        return False
    if importlib.util.find_spec("mpi4py") is not None:
        return True
    _logger.warning(
        "MPI started this process as one of %d ranks, but mpi4py is not installed, so MPI is not "
        "used: pip install 'sok_compat[mpi]'",
        launched_size(),
    )
    return False


@functools.cache
def library() -> Any:
    """The module mpi4py.MPI. MPI is started and, at exit, ended, unless the script or Horovod does
    so."""
    is_of_script = "mpi4py.MPI" in sys.modules
    mpi4py = importlib.import_module("mpi4py")
    if not is_of_script:
        mpi4py.rc.initialize = mpi4py.rc.finalize = False  # its end would wait for a lost rank
    mpi = importlib.import_module("mpi4py.MPI")
    if not mpi.Is_initialized():
        mpi.Init_thread(mpi.THREAD_MULTIPLE)
        atexit.register(_end, mpi)
    return mpi


def break_off() -> None:
    """This process ends without MPI's end, in which all ranks take part."""
    global _is_broken
    _is_broken = True


def wait_for(request: Any, seconds: float | None = None) -> bool:
    """Waits for a request without burning a processor, as MPI does; False after some seconds."""
    until = None if seconds is None else time.monotonic() + seconds
    while not request.Test():
        if until is not None and time.monotonic() > until:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _end(mpi):
    if _is_broken or mpi.Is_finalized():
        return
    if wait_for(mpi.COMM_WORLD.Ibarrier(), _END_SECONDS):
        mpi.Finalize()
