# SPDX-License-Identifier: Apache-2.0
"""Logs the progress of long saves and restores."""

from __future__ import annotations

import _thread
import contextlib
import logging
import threading
import time
from collections.abc import Iterator

from sok_compat.ranks.identity import current_ranks, is_connected
from sok_compat.runtime.op_library import c_library

SECONDS = 10.0  # between two lines
_logger = logging.getLogger(__name__)


@contextlib.contextmanager
def logged(what: str, seconds: float = SECONDS) -> Iterator[None]:
    """Context that periodically logs how many bytes of tables have been moved, on rank 0 only.

    Args:
      what: "saving ..." or "restoring ...".
      seconds: between two lines.
    """
    if is_connected() and current_ranks().rank != 0:
        yield
        return
    has_ended = threading.Event()
    with contextlib.suppress(RuntimeError, MemoryError):
        # threading.Thread.start would wait forever if there is no memory for the thread.
        _thread.start_new_thread(_log, (what, seconds, has_ended))
    try:
        yield
    finally:
        has_ended.set()


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
    return c_library.sok_checkpoint_bytes()
