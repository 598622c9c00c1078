# SPDX-License-Identifier: Apache-2.0
"""What ranks of one host send each other in exchanges, through memory that they share, in place of
Horovod."""

import ctypes
import logging
import os

_logger = logging.getLogger(__name__)

MEMORY_VARIABLE = "SOK_SHARED_MEMORY"
_ERROR_BYTES = 1000
_NO_ADDRESS = "-"


def may_share_memory():
    """The setting, from the environment.

    Raises:
      ValueError: it is neither 0 nor 1.
    """
    asked = os.environ.get(MEMORY_VARIABLE, "1")
    if asked not in ("0", "1"):
        raise ValueError(f"{MEMORY_VARIABLE} must be 0 or 1, got {asked!r}")
    return asked == "1"


class SharedMemory:
    """What carries bytes between ranks where each maps the memory of all; else nothing is left of
    it. It carries whole rounds where these are all the ranks."""

    name = "shared memory"

    def __init__(self, library, rank, ranks, most_bytes, stays_awake):
        """
        Args:
          library: the op library, as ctypes has it.
          rank: this process's.
          ranks: those of this host, with this one, in ascending order.
          most_bytes: that a rank sends at once.
          stays_awake: whether a step's thread that waits for other ranks for a moment keeps its
            processor meanwhile.
        """
        self._library = library
        self._place = ranks.index(rank)
        self._ranks = ranks
        self._most_bytes = most_bytes
        self._stays_awake = stays_awake

    def connect(self, is_wanted, gather):
        """Whether these ranks share memory, the same on all of them.

        Args:
          is_wanted: whether this rank would.
          gather: a function of this rank's line that gives the lines of all ranks of the job, by
            rank; all of them call it twice.
        """
        offers = self._of_host(gather(self._offer() if is_wanted else _NO_ADDRESS))
        problem = "not all want it" if _NO_ADDRESS in offers else self._map_all(offers)
        if problem:
            _logger.info("no memory is shared between ranks %s: %s", self._ranks, problem)
        outcomes = self._of_host(gather("0" if problem else "1"))
        is_connected = all(outcome == "1" for outcome in outcomes)
        if not is_connected:
            self._library.sok_exchange_drop_memory()
        return is_connected

    def _of_host(self, lines):
        return [lines[rank] for rank in self._ranks]

    def run_rounds(self):
        """Carries what this rank's lookups have submitted, until the exchanges end.

        Raises:
          RuntimeError: another rank has ended.
        """
        problem = self._call("run_rounds")
        if problem:
            raise RuntimeError(problem)

    def _offer(self):
        """This rank's memory, in words for the others."""
        address = (ctypes.c_int64 * 3)()
        ranks = (ctypes.c_int * len(self._ranks))(*self._ranks)
        most_bytes = ctypes.c_int64(self._most_bytes)
        mine = (self._place, ranks, len(ranks), most_bytes, int(self._stays_awake))
        problem = self._call("offer_memory", *mine, address)
        if problem:
            _logger.info("no memory is shared between ranks: %s", problem)
        return _NO_ADDRESS if problem else " ".join(map(str, address))

    def _map_all(self, lines):
        """Why it cannot be done; empty: it is done."""
        numbers = [int(word) for line in lines for word in line.split()]
        return self._call("connect_memory", len(lines), (ctypes.c_int64 * len(numbers))(*numbers))

    def _call(self, name, *args):
        """What the library's function says has failed; empty: nothing."""
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        getattr(self._library, f"sok_exchange_{name}")(*args, error, ctypes.c_int64(_ERROR_BYTES))
        return error.value.decode(errors="replace")
