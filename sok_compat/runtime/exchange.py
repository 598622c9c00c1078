# SPDX-License-Identifier: Apache-2.0
"""The thread that drives the exchanges between ranks."""

import atexit
import ctypes
import dataclasses
import logging
import os
import socket
import threading
import time

import numpy as np

from sok_compat.runtime.op_library import library_path

_logger = logging.getLogger(__name__)

STALL_VARIABLE = "SOK_STALL_TIMEOUT_SECONDS"
DEFAULT_STALL_SECONDS = 60.0
HEARTBEAT_SECONDS = 0.5
GROUPING_SECONDS = 0.02
WATCH_SECONDS = 0.5
LOST_RANK_SECONDS = 2.0


@dataclasses.dataclass(frozen=True)
class CommunicationStats:
    """What this rank has done since it was connected; bytes count what went to other ranks."""

    exchanges: int  # all-to-alls that carried keys, rows or gradients
    rounds: int  # all-to-alls in all; an idle rank makes two a second, to keep in touch
    payload_bytes: int  # keys, rows and gradients
    negotiation_bytes: int  # all else


def stall_seconds():
    """The setting, from the environment.

    Raises:
      ValueError: it is no positive number.
    """
    text = os.environ.get(STALL_VARIABLE, str(DEFAULT_STALL_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ValueError(f"{STALL_VARIABLE} must be a number of seconds > 0, got {text!r}")
    return seconds


class ExchangeThread:
    """Runs rounds until a rank leaves or the ranks cannot talk any more."""

    def __init__(self, collectives):
        """Starts the thread.

        Args:
          collectives: rank, size and alltoall; see runtime.horovod_ranks.Collectives.
        """
        self._collectives = collectives
        self._library = ctypes.CDLL(str(library_path()))
        self._library.sok_exchange_start.argtypes = [ctypes.c_int] * 2 + [ctypes.c_double] * 3
        self._library.sok_exchange_start(
            collectives.rank, collectives.size, stall_seconds(), HEARTBEAT_SECONDS, GROUPING_SECONDS
        )
        self._stall_seconds = stall_seconds()
        self._processes = self._gather_processes()
        self._round_began = None  # while Horovod's all-to-all runs
        self._thread = threading.Thread(target=self._run, name="sok_compat.exchange", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch, name="sok_compat.watch", daemon=True).start()
        atexit.register(self.leave)

    def leave(self):
        """Tells the other ranks that this one ends, and waits for them to know."""
        if not self._library.sok_exchange_is_closed():
            self._library.sok_exchange_leave()
            self._thread.join(timeout=10 * HEARTBEAT_SECONDS)

    def stats(self):
        """CommunicationStats so far."""
        counters = (ctypes.c_int64 * 4)()
        self._library.sok_exchange_counters(counters)
        return CommunicationStats(*counters)

    def _run(self):
        try:
            while not self._library.sok_exchange_is_closed():
                self._run_round()
        except Exception as error:  # noqa: BLE001  whatever Horovod raises ends all exchanges
            self._abort(f"{self._describe_lost_ranks()}; Horovod says: {error}")

    def _watch(self):
        """Ends all exchanges when a rank does not answer: every rank does, twice a second."""
        while not self._library.sok_exchange_is_closed():
            time.sleep(WATCH_SECONDS)
            began = self._round_began
            if began is not None and time.monotonic() - began > self._stall_seconds:
                self._abort(
                    f"{self._describe_lost_ranks()}; no answer for {self._stall_seconds:g} s "
                    f"({STALL_VARIABLE})"
                )

    def _abort(self, reason):
        _logger.error("exchanges between ranks have ended: %s", reason)
        self._library.sok_exchange_abort(reason.encode())

    def _run_round(self):
        data, send_bytes = ctypes.c_void_p(), ctypes.POINTER(ctypes.c_int64)()
        self._library.sok_exchange_propose(ctypes.byref(data), ctypes.byref(send_bytes))
        send_bytes = np.ctypeslib.as_array(send_bytes, (self._collectives.size,))
        _check_sizes(send_bytes)
        self._round_began = time.monotonic()
        received, received_bytes = self._collectives.alltoall(
            _bytes_at(data.value, int(send_bytes.sum())), send_bytes
        )
        self._round_began = None
        self._library.sok_exchange_complete(
            received.ctypes.data_as(ctypes.c_void_p),
            received_bytes.astype(np.int64).ctypes.data_as(ctypes.c_void_p),
        )

    def _gather_processes(self):
        """[(host, process id)] of all ranks, to name those that are gone."""
        mine = f"{socket.gethostname()} {os.getpid()}\n".encode()
        data = np.tile(np.frombuffer(mine, np.uint8), self._collectives.size)
        send_bytes = np.full([self._collectives.size], len(mine))
        joined, _ = self._collectives.alltoall(data, send_bytes)
        lines = joined.tobytes().decode().splitlines()
        return [(host, int(pid)) for host, pid in (line.split() for line in lines)]

    def _find_lost_ranks(self):
        """Ranks of this host that do not run; a killed process closes its connections a moment
        before it counts as gone."""
        until = time.monotonic() + LOST_RANK_SECONDS
        while True:
            gone = [
                rank
                for rank, (host, pid) in enumerate(self._processes)
                if host == socket.gethostname() and not _is_running(pid)
            ]
            if gone or time.monotonic() > until:
                return gone
            time.sleep(0.05)

    def _describe_lost_ranks(self):
        gone = self._find_lost_ranks()
        if gone:
            ranks = f"rank{'s' * (len(gone) > 1)} {', '.join(map(str, gone))}"
            return f"lost {ranks}: ended or stopped"
        others = sorted({host for host, _ in self._processes} - {socket.gethostname()})
        return "lost a rank" + (f" on one of the hosts {', '.join(others)}" if others else "")


def _is_running(pid):
    """Whether a process of this host runs: neither gone, nor a zombie, nor stopped."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZTXx"
    except OSError:
        return False


def _bytes_at(address, size_bytes):
    if not size_bytes:
        return np.zeros([0], np.uint8)
    return np.ctypeslib.as_array(
        ctypes.cast(address, ctypes.POINTER(ctypes.c_uint8)), (size_bytes,)
    )


def _check_sizes(send_bytes):
    if send_bytes.max() >= 2**31:
        raise ValueError(
            f"one exchange carries less than 2 GiB to each rank, got {send_bytes.max()} bytes; "
            "make the batch smaller"
        )
