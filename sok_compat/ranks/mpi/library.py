# SPDX-License-Identifier: Apache-2.0
"""Whether MPI started this process as one of several ranks; starts and ends MPI in it."""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib
import importlib.util
import logging
import os
import sys
import time
from typing import Any

from sok_compat.ranks.launched import mpi_size

_logger = logging.getLogger(__name__)

_GLOO_VARIABLE = "HOROVOD_GLOO_RENDEZVOUS_ADDR"  # horovodrun sets it if ranks meet without MPI
_END_SECONDS = 60.0  # for the other ranks to end
POLL_SECONDS = 0.005

_is_ours = False  # this module has started MPI
_is_broken = False  # a rank was lost: to end MPI would wait for it


@functools.cache
def is_usable() -> bool:
    """Whether MPI started this process as one of several ranks, and mpi4py is installed.

    Nothing is imported.
    """
    if mpi_size() == 1 or _GLOO_VARIABLE in os.environ:
        return False
    if importlib.util.find_spec("mpi4py") is not None:
        return True
    _logger.warning(
        "MPI started this process as one of %d ranks, but mpi4py is not installed, so MPI is not "
        "used: pip install 'sok_compat[mpi]'",
        mpi_size(),
    )
    return False


@functools.cache
def library() -> Any:
    """The module mpi4py.MPI, with MPI started, unless the script or Horovod has done so.

    MPI starts when all ranks have come here, and meanwhile other threads run.

    Raises:
      RuntimeError: MPI cannot be started.
    """
    is_of_script = "mpi4py.MPI" in sys.modules
    mpi4py = importlib.import_module("mpi4py")
    if not is_of_script:
        mpi4py.rc.initialize = mpi4py.rc.finalize = False  # its end would wait for a lost rank
    mpi = importlib.import_module("mpi4py.MPI")
    if not mpi.Is_initialized():
        _start(mpi)
        global _is_ours
        _is_ours = True
    return mpi


def numbers_alike(rank: int, size: int) -> bool:
    """Whether MPI numbers the ranks like this, and lets several threads call it."""
    mpi = library()
    world = mpi.COMM_WORLD
    is_safe = mpi.Query_thread() == mpi.THREAD_MULTIPLE
    return is_safe and (world.Get_rank(), world.Get_size()) == (rank, size)


def end_at_exit() -> None:
    """Registers the end of MPI, to run after all that is registered later."""
    atexit.register(_end)


def _start(mpi):
    """MPI_Init_thread, which mpi4py would call without releasing Python's lock."""
    provided = ctypes.c_int()
    start = ctypes.CDLL(mpi.__file__).MPI_Init_thread
    code = start(None, None, ctypes.c_int(mpi.THREAD_MULTIPLE), ctypes.byref(provided))
    if code != mpi.SUCCESS or provided.value < mpi.THREAD_MULTIPLE:
        raise RuntimeError(f"MPI_Init_thread returned {code}, for threads {provided.value}")


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


def _end():
    if not _is_ours or _is_broken:
        return
    mpi = library()
    if not mpi.Is_finalized() and wait_for(mpi.COMM_WORLD.Ibarrier(), _END_SECONDS):
        mpi.Finalize()
