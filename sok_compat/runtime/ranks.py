# SPDX-License-Identifier: Apache-2.0
"""How many processes train together, and what connects them."""

import dataclasses
import threading

from sok_compat.runtime.exchange import CommunicationStats, ExchangeThread
from sok_compat.runtime.horovod_helpers import (
    adapt_helpers,
    after_each_init,
    leave_tables_out,
    refuse_early_tape,
)
from sok_compat.runtime.horovod_ranks import (
    Collectives,
    active_horovod,
)
from sok_compat.runtime.refused_steps import count_refused_steps
from sok_compat.runtime.seeds import draw_seed
from sok_compat.runtime.shared_gradients import watch_gradients
from sok_compat.runtime.tickets import is_of_one_rank

_exchange_thread = None
_connecting = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Ranks:
    """This process among those that share the tables."""

    rank: int = 0
    size: int = 1


def horovod_ranks():
    """The ranks of the Horovod that the script has initialized; None: there is none."""
    horovod = active_horovod()
    return None if horovod is None else Ranks(horovod.rank(), horovod.size())


def connect_ranks(is_sharded, is_shared_table, user="tables are made"):
    """The ranks of this process, ready to exchange; Horovod's, if the script initialized it.

    Whoever makes a table calls it; all ranks have to. The first call waits for the others; all but
    that cost nothing. Where graphs of one rank are built, a table is of that rank alone.

    Args:
      is_sharded: whether a variable has rows of this rank, for Horovod's helpers.
      is_shared_table: whether it is a table with rows on several ranks.
      user: what calls this, for messages.

    Raises:
      RuntimeError: another rank does not connect within the time that a step would wait.
    """
    horovod = active_horovod(user)
    if horovod is None:
        return Ranks()
    if horovod.size() == 1 or is_of_one_rank():
        leave_tables_out(horovod, is_sharded)
        return Ranks()
    global _exchange_thread
    with _connecting:
        if _exchange_thread is None:
            _exchange_thread = ExchangeThread(Collectives(horovod))
            after_each_init(_exchange_thread.leave_at_exit)
            adapt_helpers(horovod, is_sharded, user)
            count_refused_steps()
            watch_gradients(
                is_shared_table, lambda tape, tables: refuse_early_tape(tape, tables, user)
            )
    _exchange_thread.wait_for_ranks(user)
    return Ranks(horovod.rank(), horovod.size())


def random_seed():
    """For where the script gives none: the same on all ranks. In one process each call's is new."""
    return draw_seed() if _exchange_thread is None else _exchange_thread.seed


def is_connected():
    """Whether this process exchanges with other ranks."""
    return _exchange_thread is not None


def communication_stats():
    """What the exchanges of this rank have sent since it was connected, as CommunicationStats.

    All zeros where one process trains alone.
    """
    if _exchange_thread is None:
        return CommunicationStats(0, 0, 0, 0)
    return _exchange_thread.stats()
