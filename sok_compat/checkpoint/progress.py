# SPDX-License-Identifier: Apache-2.0
"""What is logged of checkpoints that take long."""

import contextlib
import ctypes
import functools
import logging
import threading
import time

from sok_compat.runtime.op_library import library_path
from sok_compat.runtime.ranks import horovod_ranks, is_connected

SECONDS = 10.0  # between two lines
_logger = logging.getLogger(__name__)


@contextlib.contextmanager
def logged(what, seconds=SECONDS):
    """Logs, each so many seconds until it is closed, how many bytes of tables have been moved;
    nothing where there are none, and on rank 0 alone.

    Args:
      what: "saving ..." or "restoring ...".
      seconds: between two lines.
    """
    if is_connected() and horovod_ranks().rank != 0:
        yield
        return
    has_ended = threading.Event()
    thread = threading.Thread(target=_log, args=(what, seconds, has_ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


def _log(what, seconds, has_ended):
    start, before = time.monotonic(), _moved_bytes()
    while not has_ended.wait(seconds):
        moved, taken = _moved_bytes() - before, time.monotonic() - start
        if moved > 0:
            _logger.info(
                "%s: %.2f GB of tables in %.0f s, %.0f MB/s",
                *(what, moved / 1e9, taken, moved / 1e6 / taken),
            )


def _moved_bytes():
    return _library().sok_checkpoint_bytes()


@functools.cache
def _library():
    library = ctypes.CDLL(str(library_path()))
    library.sok_checkpoint_bytes.restype = ctypes.c_int64
    return library
