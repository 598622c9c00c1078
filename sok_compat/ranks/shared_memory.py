# SPDX-License-Identifier: Apache-2.0
"""Shared memory as the transport between ranks of one host, in place of Horovod."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Sequence

_logger = logging.getLogger(__name__)

_ERROR_BYTES = 1000
_NO_ADDRESS = "-"


class SharedMemory:
    """Memory shared by the ranks of one host; released again unless each can map that of all."""

    def __init__(
        self, library: ctypes.CDLL, rank: int, ranks: Sequence[int], ring_bytes: int
    ) -> None:
        """Does nothing yet. `ranks` are all ranks of this host, in ascending order, with a ring
        each."""
        self._library = library
        self._place = ranks.index(rank)
        self._ranks = ranks
        self._ring_bytes = ring_bytes

    def connect(self, is_wanted: bool, gather: Callable[[str], list[str]]) -> bool:
        """Connects the memory of these ranks, if all of them want to; returns whether they share
        memory.

        Args:
          gather: all-gathers a line, and returns the lines of all ranks of the job. It is called
            twice, on all ranks.
        """
        addresses = self._of_host(gather(self._allocate() if is_wanted else _NO_ADDRESS))
        problem = "not all ranks want it" if _NO_ADDRESS in addresses else self._map_all(addresses)
        if problem:
            _logger.info("no memory is shared between ranks %s: %s", self._ranks, problem)
        outcomes = self._of_host(gather("0" if problem else "1"))
        is_connected = all(outcome == "1" for outcome in outcomes)
        if not is_connected:
            self._library.sok_exchange_drop_memory()
        return is_connected

    def _of_host(self, lines):
        return [lines[rank] for rank in self._ranks]

    def _allocate(self):
        """Allocates this rank's memory; returns a line that describes it to the others."""
        address = (ctypes.c_int64 * 3)()
        ranks = (ctypes.c_int * len(self._ranks))(*self._ranks)
        mine = (self._place, ranks, len(ranks), ctypes.c_int64(self._ring_bytes))
        problem = self._call("offer_memory", *mine, address)
        if problem:
            _logger.info("no memory is shared between ranks: %s", problem)
        return _NO_ADDRESS if problem else " ".join(map(str, address))

    def _map_all(self, lines):
        """Maps the memory of all ranks; returns why it failed, or ''."""
        numbers = [int(word) for line in lines for word in line.split()]
        return self._call("connect_memory", len(lines), (ctypes.c_int64 * len(numbers))(*numbers))

    def _call(self, name, *args):
        """Calls a function of the library; returns why it failed, or ''."""
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        getattr(self._library, f"sok_exchange_{name}")(*args, error, ctypes.c_int64(_ERROR_BYTES))
        return error.value.decode(errors="replace")
