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
MOST_CHARACTERS = 300  # of what an error says
MOST_BYTES = 1 << 30  # that a rank sends or receives in one all-to-all: 32 bits count them


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
        self._library.sok_exchange_propose.restype = ctypes.c_int
        self._library.sok_exchange_start(
            collectives.rank, collectives.size, stall_seconds(), HEARTBEAT_SECONDS, GROUPING_SECONDS
        )
        self._stall_seconds = stall_seconds()
        self._processes = self._gather_processes()
        self._round_began = None  # while Horovod's all-to-all runs
        self._aborting = threading.Lock()
        self._aborted = None  # when exchanges have ended because a rank was lost
        self._thread = threading.Thread(target=self._run, name="sok_compat.exchange", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch, name="sok_compat.watch", daemon=True).start()
        atexit.register(self.leave)

    def leave(self):
        """Tells the other ranks that this one ends, and waits for them to know."""
        if not self._library.sok_exchange_is_closed():
            self._library.sok_exchange_leave()
            self._thread.join(timeout=10 * HEARTBEAT_SECONDS)
        if self._aborted is not None:  # others may be looking which ranks are gone: not this one
            time.sleep(max(0.0, self._aborted + LOST_RANK_SECONDS - time.monotonic()))

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
            self._abort(f"Horovod says: {first_line(error)}")

    def _watch(self):
        """Ends all exchanges when a rank does not answer: every rank does, twice a second."""
        while not self._library.sok_exchange_is_closed():
            time.sleep(WATCH_SECONDS)
            began = self._round_began
            if began is not None and time.monotonic() - began > self._stall_seconds:
                self._abort(f"no answer for {self._stall_seconds:g} s ({STALL_VARIABLE})")

    def _abort(self, seen):
        with self._aborting:  # whoever sees it first says so, once
            if self._aborted is not None:
                return
            self._aborted = time.monotonic()
        reason = f"{self._describe_lost_ranks()}; {seen}"
        _logger.error("exchanges between ranks have ended: %s", reason)
        self._library.sok_exchange_abort(reason.encode())

    def _run_round(self):
        data, send_bytes = ctypes.c_void_p(), ctypes.POINTER(ctypes.c_int64)()
        if not self._library.sok_exchange_propose(ctypes.byref(data), ctypes.byref(send_bytes)):
            return
        send_bytes = np.ctypeslib.as_array(send_bytes, (self._collectives.size,))
        self._round_began = time.monotonic()
        received, received_bytes = exchange_in_parts(
            self._alltoall, _bytes_at(data.value, int(send_bytes.sum())), send_bytes, MOST_BYTES
        )
        self._round_began = None
        self._library.sok_exchange_complete(
            received.ctypes.data_as(ctypes.c_void_p),
            received_bytes.astype(np.int64).ctypes.data_as(ctypes.c_void_p),
        )

    def _alltoall(self, data, send_bytes):
        self._round_began = time.monotonic()
        return self._collectives.alltoall(data, send_bytes)

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


def first_line(error):
    """What an error says, without the stack traces that TensorFlow adds when it raises it again."""
    while isinstance(error.__context__, type(error)):
        error = error.__context__
    lines = getattr(error, "message", str(error)).splitlines()
    said = [line.strip() for line in lines if line.strip() and "root error(s)" not in line]
    return said[0][:MOST_CHARACTERS] if said else type(error).__name__


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


def exchange_in_parts(alltoall, data, send_bytes, most_bytes):
    """One all-to-all of messages of any size, as several of at most `most_bytes` in all.

    Args:
      alltoall: a function of (bytes uint8, sizes by rank) that gives what was received likewise.
      data: bytes for each rank, one after the other. For every rank they begin with the bytes of
        the longest message to any rank, an int64, so that all know how many parts there will be.
      send_bytes: their sizes [num_ranks].
      most_bytes: of one all-to-all, sent or received by one rank.

    Returns:
      (bytes received, their sizes by source rank).
    """
    part_bytes = most_bytes // len(send_bytes)
    begins = np.cumsum(send_bytes) - send_bytes
    received, num_parts, part = [], 1, 0
    while part < num_parts:
        sizes = np.clip(send_bytes - part * part_bytes, 0, part_bytes)
        if part == 0 and (sizes == send_bytes).all():
            to_send = data
        else:
            firsts = begins + part * part_bytes
            to_send = np.concatenate([data[b : b + n] for b, n in zip(firsts, sizes)])
        received.append(alltoall(to_send, sizes))
        if part == 0:
            num_parts = -(-_longest_message(*received[0]) // part_bytes)
        part += 1
    if len(received) == 1:
        return received[0]
    return _join_parts(received)


def _longest_message(data, sizes):
    """The int64 that the messages of all ranks begin with; of all, the largest."""
    begins = np.cumsum(sizes) - sizes
    return max(int(data[begin : begin + 8].view(np.int64)[0]) for begin in begins.tolist())


def _join_parts(received):
    """Of [(bytes, sizes by rank)], the parts of each rank one after the other."""
    by_rank = zip(*[np.split(data, np.cumsum(sizes)[:-1]) for data, sizes in received])
    total_sizes = np.sum([np.asarray(sizes, np.int64) for _, sizes in received], axis=0)
    return np.concatenate([part for parts in by_rank for part in parts]), total_sizes
