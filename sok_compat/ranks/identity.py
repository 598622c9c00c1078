# SPDX-License-Identifier: Apache-2.0
"""The number of processes that train together, and their connection."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

import tensorflow as tf

from sok_compat.ranks.collectives import is_of_one_rank
from sok_compat.ranks.current_job import active_job, connection_of
from sok_compat.ranks.exchange import CommunicationStats, ExchangeThread
from sok_compat.ranks.global_norm import clip_by_norm_over_ranks
from sok_compat.ranks.horovod.helpers import refuse_early_tape
from sok_compat.ranks.sentences_first import put_sentences_first
from sok_compat.ranks.shared_gradients import watch_gradients
from sok_compat.runtime import integrations
from sok_compat.runtime.seeds import draw_seed

_exchange_thread: ExchangeThread | None = None  # once this process connects to other ranks
_connecting = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Ranks:
    """This process among those that share the tables."""

    rank: int = 0
    size: int = 1


def current_ranks() -> Ranks:
    """The Ranks of this process."""
    job = active_job()
    return Ranks(job.rank(), job.size())


def connect_ranks(
    is_sharded: Callable[[tf.Variable], bool],
    is_shared_table: Callable[[tf.Variable], bool],
    user: str = "tables are made",
) -> Ranks:
    """Connects this process to the ranks of Horovod, if the script has initialized it, or of MPI.

    Every creation of a table calls it, on all ranks. The first call waits for the others; later
    calls cost nothing. In graphs of one rank, a table belongs to that rank alone.

    Returns:
      The Ranks that share the table.

    Raises:
      RuntimeError: another rank does not connect within the timeout of a step.
    """
    job = active_job(user)
    if job.size() == 1 or is_of_one_rank():
        job.adapt_to_tables(is_sharded, is_connected=False)
        return Ranks()
    global _exchange_thread
    with _connecting:
        if _exchange_thread is None:
            _exchange_thread = ExchangeThread(connection_of(job))
            job.adapt_to_tables(is_sharded, is_connected=True)
            integrations.when_there_are_tables(
                lambda: watch_gradients(is_shared_table, refuse_early_tape)
            )
            integrations.when_there_are_tables(clip_by_norm_over_ranks)
            integrations.when_there_are_tables(put_sentences_first)
    _exchange_thread.leave_at_exit()  # the script may have called hvd.init() once more
    _exchange_thread.wait_for_ranks(user)
    return Ranks(job.rank(), job.size())


def random_seed() -> int:
    """A seed if the script gives none: the same on all ranks; a new one each time on one rank."""
    seed = None if _exchange_thread is None else _exchange_thread.seed
    return draw_seed() if seed is None else seed


def is_connected() -> bool:
    """Whether this process exchanges with other ranks."""
    return _exchange_thread is not None


def communication_stats() -> CommunicationStats:
    """Returns counters of this rank's exchanges since it connected; zeros if it trains alone.

    Added by sok_compat.
    """
    if _exchange_thread is None:
        return CommunicationStats(0, 0, 0, 0)
    return _exchange_thread.stats()
