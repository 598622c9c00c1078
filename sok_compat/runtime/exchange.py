# SPDX-License-Identifier: Apache-2.0
"""The thread that runs the exchanges between ranks, and says why they have ended."""

import atexit
import ctypes
import dataclasses
import logging
import math
import os
import socket
import threading
import time
from typing import NamedTuple

import numpy as np

from sok_compat.runtime.horovod_attendance import Attendance
from sok_compat.runtime.op_library import library_path
from sok_compat.runtime.processors import own_processors, share_of_processors
from sok_compat.runtime.seeds import draw_seed
from sok_compat.runtime.shared_memory import SharedMemory, may_share_memory

_logger = logging.getLogger(__name__)

STALL_VARIABLE = "SOK_STALL_TIMEOUT_SECONDS"
GLOO_VARIABLE = "HOROVOD_GLOO_TIMEOUT_SECONDS"
DEFAULT_STALL_SECONDS = 60.0
HEARTBEAT_SECONDS = 0.5
GROUPING_SECONDS = 0.02
WATCH_SECONDS = 0.5
LOST_RANK_SECONDS = 2.0
SILENCE_SECONDS = 3.0  # more, after which a rank of another host that gives no sign counts as lost
MOST_CHARACTERS = 300  # of what an error says
MOST_BYTES = 1 << 26  # that a rank sends or receives in one all-to-all, within the stall timeout


@dataclasses.dataclass(frozen=True)
class CommunicationStats:
    """What this rank has done since it was connected; bytes count what went to other ranks."""

    exchanges: int  # all-to-alls that carried keys, rows or gradients
    rounds: int  # all-to-alls in all; an idle rank makes two a second, to keep in touch
    payload_bytes: int  # keys, rows and gradients of tables
    negotiation_bytes: int  # all else
    # Rows and gradients beyond the largest float16, 65,504, which have travelled as that one.
    saturated_values: int = 0
    # What hvd.allreduce sums beside lookups, where that goes with them; see docs/distributed.md.
    dense_bytes: int = 0


class _Process(NamedTuple):
    """What a rank tells the others of itself, and by which they name it when it is gone."""

    host: str
    pid: int
    processors: str


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
    """Runs rounds until a rank leaves or the ranks cannot talk any more.

    The rounds need no Python, so that a rank whose script holds Python's lock for long answers the
    others all the same; this thread only starts them and says why they have ended.

    Attributes:
      seed: a random one, the same on all ranks once they have met.
    """

    def __init__(self, collectives):
        """Starts the thread.

        Args:
          collectives: see runtime.horovod_ranks.Collectives.
        """
        self._collectives = collectives
        self._stall_seconds = stall_seconds()
        self._may_share_memory = may_share_memory()
        self._library = _start_exchanges(collectives.rank, collectives.size, self._stall_seconds)
        self._carrier = collectives  # of rounds
        self._process = os.getpid()
        self._attendance = Attendance(collectives.size)
        self._survivors = Attendance(collectives.size, "sok_compat.survivors")
        self.seed = None
        self._processes = {}  # rank: _Process, once the ranks have met
        self._has_met = threading.Event()
        self._error = None  # why the ranks have not met
        self._aborting = threading.Lock()
        self._aborted = None  # when exchanges have ended because a rank was lost
        self._thread = threading.Thread(target=self._run, name="sok_compat.exchange", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch, name="sok_compat.watch", daemon=True).start()
        self.leave_at_exit()

    def wait_for_ranks(self, user):
        """Returns when all ranks have connected.

        Args:
          user: what they connect for, for messages.

        Raises:
          RuntimeError: one of them has not for as long as a step would wait, or has ended.
        """
        if not self._has_met.wait(self._stall_seconds):
            raise RuntimeError(
                f"waited {self._stall_seconds:g} s ({STALL_VARIABLE}) for {self._absent_ranks()} "
                f"to connect, as each rank has to before {user}: it has ended, is late, or does "
                "something else"
            )
        if self._error is not None:
            raise RuntimeError(f"the ranks cannot connect: {self._error}")

    def leave_at_exit(self):
        """`leave` comes before all that is to be called at the end of the process by now: before
        Horovod's shutdown, for which each hvd.init() asks."""
        atexit.unregister(self.leave)
        atexit.register(self.leave)

    def leave(self):
        """Tells the other ranks that this one ends, and waits for them to know."""
        if os.getpid() != self._process:  # a child of fork() is no rank
            return
        if not self._library.sok_exchange_is_closed():
            self._library.sok_exchange_leave()
            if self._processes:
                self._thread.join(timeout=10 * HEARTBEAT_SECONDS)
        if self._aborted is not None:  # others may be looking which ranks are gone: not this one
            seconds = LOST_RANK_SECONDS + (SILENCE_SECONDS if self._elsewhere() else 0.0)
            time.sleep(max(0.0, self._aborted + seconds - time.monotonic()))

    def stats(self):
        """CommunicationStats so far."""
        counters = (ctypes.c_int64 * 5)()
        self._library.sok_exchange_counters(counters)
        *of_tables, dense_bytes = counters
        return CommunicationStats(
            *of_tables, self._library.sok_exchange_num_saturated(), dense_bytes
        )

    def _run(self):
        try:
            self._processes, self.seed = self._gather_processes()
            share = self._share_processors()
            self._has_met.set()
            self._carrier = self._choose_carrier(stays_awake=share >= 1)
            _logger.info("exchanges between ranks go through %s", self._carrier.name)
            self._carrier.run_rounds()
        except Exception as error:  # noqa: BLE001  whatever is raised ends all exchanges
            if self._carrier is self._collectives:
                note = _gloo_note(self._library.sok_exchange_part_seconds())
                self._abort(f"{note}Horovod says: {first_line(error)}")
            else:
                self._abort(first_line(error))

    def _watch(self):
        """Ends all exchanges when a rank does not answer: every rank does, twice a second."""
        while not self._library.sok_exchange_is_closed():
            time.sleep(WATCH_SECONDS)
            if self._library.sok_exchange_part_seconds() > self._stall_seconds:
                self._abort(f"no answer for {self._stall_seconds:g} s ({STALL_VARIABLE})")

    def _abort(self, seen):
        with self._aborting:  # whoever sees it first says so, once
            if self._aborted is not None or self._library.sok_exchange_is_closed():
                return
            self._aborted = time.monotonic()
        reason = f"{self._describe_lost_ranks()}; {seen}"
        _logger.error("exchanges between ranks have ended: %s", reason)
        self._library.sok_exchange_abort(reason.encode())
        if not self._has_met.is_set():
            self._error = reason
            self._has_met.set()

    def _gather_processes(self):
        """({rank: _Process}, a seed of rank 0). Waits for all ranks."""
        mine = f"{socket.gethostname()} {os.getpid()} {own_processors()} {draw_seed()}"
        self._attendance.sign(self._collectives.rank, mine)
        lines = self._gather(mine)
        return _parse_processes(enumerate(lines)), int(lines[0].split()[3])

    def _share_processors(self):
        """This rank's part of the processors, of which each rank's TensorFlow has a thread for
        each: the loops of its ops get threads for that part."""
        own = self._processes[self._collectives.rank].processors
        of_host = [self._processes[rank].processors for rank in self._ranks_of_host()]
        share = share_of_processors(own, of_host)
        num_threads = math.ceil(share)
        self._library.sok_exchange_limit_threads(num_threads)
        _logger.info("loops of this rank's ops run on at most %d threads", num_threads)
        return share

    def _choose_carrier(self, stays_awake):
        """What runs the rounds; the same on all ranks, but for memory that those of a host share,
        or do not, beside Horovod."""
        ranks = self._collectives
        of_host = self._ranks_of_host()
        memory = SharedMemory(self._library, ranks.rank, of_host, MOST_BYTES, stays_awake)
        is_wanted = self._may_share_memory and ranks.is_on_host and len(of_host) > 1
        is_shared = memory.connect(is_wanted, self._gather)
        if is_shared and len(of_host) == ranks.size:
            return memory
        if is_shared:
            _logger.info("ranks %s, of this host, share memory for exchanges", of_host)
        return ranks

    def _ranks_of_host(self):
        own_host = self._processes[self._collectives.rank].host
        return [rank for rank, (host, *_) in sorted(self._processes.items()) if host == own_host]

    def _gather(self, line):
        """The lines of all ranks, by rank."""
        data = np.tile(np.frombuffer(f"{line}\n".encode(), np.uint8), self._collectives.size)
        send_bytes = np.full([self._collectives.size], len(line) + 1)
        joined, _ = self._collectives.alltoall(data, send_bytes)
        return joined.tobytes().decode().splitlines()

    def _absent_ranks(self):
        """Words for the ranks that have not connected."""
        signed = self._attendance.lines()
        absent = [rank for rank in range(self._collectives.size) if rank not in signed]
        if not signed or not absent:
            return "another rank (rank 0's log names it, where Horovod says 'Missing ranks')"
        return _ranks(absent)

    def _find_lost_ranks(self):
        """Ranks of this host that do not run; a killed process closes its connections a moment
        before it counts as gone."""
        until = time.monotonic() + LOST_RANK_SECONDS
        processes = self._processes or _parse_processes(self._attendance.lines().items())
        while True:
            gone = [
                rank
                for rank, (host, pid, _) in processes.items()
                if host == socket.gethostname() and not _is_running(pid)
            ]
            if gone or time.monotonic() > until:
                return gone
            time.sleep(0.05)

    def _elsewhere(self):
        """{rank: host} of those on other hosts."""
        mine = socket.gethostname()
        return {rank: host for rank, (host, *_) in self._processes.items() if host != mine}

    def _find_silent_ranks(self):
        """Ranks of other hosts that have not signed as survivors; None: this one cannot tell."""
        until = time.monotonic() + SILENCE_SECONDS
        while True:
            signed = self._survivors.lines()
            if self._collectives.rank not in signed:
                return None
            silent = [rank for rank in self._elsewhere() if rank not in signed]
            if not silent or time.monotonic() > until:
                return silent
            time.sleep(0.2)

    def _describe_lost_ranks(self):
        if self._elsewhere():
            self._survivors.sign(self._collectives.rank, "here")
        gone = self._find_lost_ranks()
        if gone:
            return f"lost {_ranks(gone)}: ended or stopped"
        if not self._processes:
            return f"{self._absent_ranks()} had not connected"
        elsewhere = self._elsewhere()
        return self._describe_silent_ranks(elsewhere) if elsewhere else "lost a rank"

    def _describe_silent_ranks(self, elsewhere):
        silent = self._find_silent_ranks()
        if silent is None and self._survivors.exists:
            return (
                f"lost {_ranks(sorted(elsewhere))} on {_hosts(elsewhere.values())}: there is no "
                "way from this host to the one of the launcher"
            )
        if not silent:
            return f"lost a rank on {_hosts(elsewhere.values())}"
        hosts = _hosts(elsewhere[rank] for rank in silent)
        return f"lost {_ranks(silent)} on {hosts}: no sign of life, or no way there"


def _start_exchanges(rank, size, seconds):
    """The op library, whose part of the exchanges has been started."""
    library = ctypes.CDLL(str(library_path()))
    library.sok_exchange_start.argtypes = (
        [ctypes.c_int] * 2 + [ctypes.c_double] * 3 + [ctypes.c_int64]
    )
    library.sok_exchange_part_seconds.restype = ctypes.c_double
    library.sok_exchange_num_saturated.restype = ctypes.c_int64
    library.sok_exchange_start(rank, size, seconds, HEARTBEAT_SECONDS, GROUPING_SECONDS, MOST_BYTES)
    return library


def _parse_processes(lines):
    """{rank: _Process} from (rank, line) pairs."""
    split = {rank: line.split() for rank, line in lines}
    return {
        rank: _Process(host, int(pid), processors)
        for rank, (host, pid, processors, _) in split.items()
    }


def _ranks(numbers):
    return f"rank{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _hosts(names):
    names = sorted(set(names))
    return f"host{'s' * (len(names) > 1)} {', '.join(names)}"


def _gloo_note(waited_seconds):
    """Words on Horovod's own timeout, if it is over; Horovod's error does not say so."""
    setting = os.environ.get(GLOO_VARIABLE, "30")  # Horovod's default
    if not setting.isdecimal() or waited_seconds < int(setting):
        return ""
    return (
        f"no answer for {waited_seconds:.0f} s, where Horovod gives up after "
        f"{GLOO_VARIABLE}={setting}, whatever {STALL_VARIABLE} is; "
    )


def first_line(error, most_characters=MOST_CHARACTERS):
    """What an error says, without the stack traces that TensorFlow adds when it raises it again."""
    while isinstance(error.__context__, type(error)):
        error = error.__context__
    lines = (getattr(error, "message", None) or str(error)).splitlines()
    nodes = [number for number, line in enumerate(lines) if line.startswith("Node: ")]
    lines = lines[nodes[-1] + 1 :] if nodes else lines  # behind where in the graph it was
    said = [line.strip() for line in lines if line.strip() and "root error(s)" not in line]
    return said[0][:most_characters] if said else type(error).__name__


def _is_running(pid):
    """Whether a process of this host runs: neither gone, nor a zombie, nor stopped."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZTXx"
    except OSError:
        return False
