# SPDX-License-Identifier: Apache-2.0
"""Logs the progress of long saves and restores."""

from __future__ import annotations

import _thread
import contextlib
import dataclasses
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import tensorflow as tf

from sok_compat.checkpoint.files.table_names import RECORDED
from sok_compat.ranks.identity import current_ranks, is_connected
from sok_compat.runtime.op_library import c_library
from sok_compat.runtime.tf_versions import var_is_initialized_op
from sok_compat.tables.table import Table

SECONDS = 5.0  # between two lines
SAVED_BYTES = "bytes_of_tables"  # name, in the scope of a saver, of a tensor as of `bytes_in`
_logger = logging.getLogger(__name__)


@dataclasses.dataclass
class Moved:
    """What this process has saved, or restored, of tables."""

    counted_bytes: Callable[[], int]  # which several at a time share
    count: int = 0
    seconds: float = 0.0

    def figures(self) -> dict[str, float]:
        """See `stats`."""
        return {"count": self.count, "seconds": self.seconds, "bytes": self.counted_bytes()}


saved, restored = Moved(c_library.sok_saved_bytes), Moved(c_library.sok_restored_bytes)


def bytes_in(tables: Iterable[Table]) -> tf.Tensor:
    """Returns about how many bytes this rank's part of a checkpoint of `tables` has; a scalar int64
    tensor. Tables that are not initialized have none."""
    total = tf.zeros([], tf.int64)
    for table in tables:
        row_bytes = 8 + 4 * (table.dim + sum(slot.width for slot in table.slots))
        if table.history is not None and table.history.max_keys:
            row_bytes += 8 * len(RECORDED)
        total += bytes_of_rows(table, row_bytes)
    return total


def bytes_of_rows(table: Table, row_bytes: int) -> tf.Tensor:
    """Returns how many bytes rows of `row_bytes` for this rank's keys have; 0 if the table is not
    initialized."""
    with tf.device("/cpu:0"):
        num_keys = tf.cond(
            var_is_initialized_op(table.handle), table.num_keys, lambda: tf.zeros([], tf.int64)
        )
        return num_keys * row_bytes


def bytes_to_read(
    tensors: Mapping[str, tuple[str, tuple[int, ...]]], tables_hold_keys: bool
) -> int:
    """Returns about how many bytes a restore reads on this rank: all keys, and its part of other
    tensors.

    Where tables hold keys, it reads the checkpoint once more, to check it.
    """
    keys = 8 * sum(math.prod(shape) for dtype, shape in tensors.values() if dtype == "int64")
    rest = 4 * sum(math.prod(shape) for dtype, shape in tensors.values() if dtype != "int64")
    num_ranks = current_ranks().size if is_connected() else 1
    return (1 + tables_hold_keys) * (keys + rest // num_ranks)


@contextlib.contextmanager
def logged(what: str, total_bytes: int = 0, seconds: float | None = None) -> Iterator[None]:
    """Context that counts in `saved` or `restored`, and on rank 0 periodically logs how many bytes
    of tables have been moved.

    Args:
      what: "saving ...", "dumping ...", "restoring ..." or "loading ...".
      total_bytes: how many this rank will move; 0: unknown, so the log has no time left.
      seconds: between two lines; None: SECONDS.
    """
    has_ended = threading.Event()
    done = saved if what.startswith(("saving", "dumping")) else restored
    seconds = SECONDS if seconds is None else seconds
    if not is_connected() or current_ranks().rank == 0:
        with contextlib.suppress(RuntimeError, MemoryError):
            # threading.Thread.start would wait forever if there is no memory for the thread.
            _thread.start_new_thread(_log, (what, done, total_bytes, seconds, has_ended))
    start = time.monotonic()
    try:
        yield
        done.count += 1
        done.seconds += time.monotonic() - start
    finally:
        has_ended.set()


def _log(what, done, total_bytes, seconds, has_ended):
    start, before = time.monotonic(), done.counted_bytes()
    while not has_ended.wait(seconds):
        moved, taken = done.counted_bytes() - before, time.monotonic() - start
        if moved > 0:
            _logger.info("%s: %s", what, _line(moved, total_bytes, taken))


def _line(moved: int, total_bytes: int, taken: float) -> str:
    speed = f"{moved / 1e6 / taken:.0f} MB/s"
    if moved > total_bytes:
        return f"{moved / 1e9:.2f} GB of tables in {taken:.0f} s, {speed}"
    left = (total_bytes - moved) * taken / moved
    return (
        f"{moved / total_bytes:.0%}, {moved / 1e9:.2f} of {total_bytes / 1e9:.2f} GB of tables, "
        f"{speed}, about {left:.0f} s left"
    )
