# SPDX-License-Identifier: Apache-2.0
"""The thread that connects the ranks, runs Horovod's rounds, and reports why exchanges end."""

from __future__ import annotations

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

from sok_compat.ranks.connection import Connection
from sok_compat.ranks.shared_memory import SharedMemory
from sok_compat.runtime.error_texts import MOST_CHARACTERS, first_line
from sok_compat.runtime.op_library import c_library
from sok_compat.runtime.processors import own_processors, share_of_processors
from sok_compat.runtime.seeds import draw_seed
from sok_compat.runtime.settings import (
    SHARED_MEMORY,
    STALL_TIMEOUT,
    SettingsDifferError,
    check_same_on_all_ranks,
    settings_in_words,
)

_logger = logging.getLogger(__name__)

GLOO_VARIABLE = "HOROVOD_GLOO_TIMEOUT_SECONDS"
HEARTBEAT_SECONDS = 0.5
WATCH_SECONDS = 0.2
LOST_RANK_SECONDS = 2.0
SILENCE_SECONDS = 3.0  # on top, after which a silent rank of another host counts as lost
MOST_BYTES = 1 << 26  # sent or received in one all-to-all, within the stall timeout


@dataclasses.dataclass(frozen=True)
class CommunicationStats:
    """Counters of this rank since it connected; bytes are those sent to other ranks."""

    exchanges: int  # of keys, rows or gradients of a lookup, with all ranks
    rounds: int  # Horovod's all-to-alls, including idle ones; 0 if all ranks share memory
    payload_bytes: int  # keys, rows and gradients
    negotiation_bytes: int  # everything else
    # Numbers beyond the largest float16, 65,504, that were sent as that one.
    saturated_values: int = 0


class _Process(NamedTuple):
    """A rank's process; the other ranks name it when it is lost."""

    host: str
    pid: int
    processors: str


class ExchangeThread:
    """Connects the ranks, runs rounds of Horovod where it carries, and reports why exchanges end.

    Exchanges run without Python, so a rank answers the others while its script holds the GIL.

    Attributes:
      seed: random and the same on all ranks; None until they have connected.
    """

    def __init__(self, connection: Connection) -> None:
        """Starts the thread."""
        self._connection = connection
        self._stall_seconds = STALL_TIMEOUT.value()
        self._may_share_memory = SHARED_MEMORY.value()
        self._library = c_library
        self._process = os.getpid()
        self.seed: int | None = None
        self._processes: dict[int, _Process] = {}  # by rank, once the ranks have connected
        self._has_met = threading.Event()
        self._error: str | None = None  # why the ranks have not connected
        self._aborting = threading.Lock()
        self._aborted: float | None = None  # when exchanges ended because a rank was lost
        self._thread = threading.Thread(target=self._run, name="sok_compat.exchange", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch, name="sok_compat.watch", daemon=True).start()
        self.leave_at_exit()

    def wait_for_ranks(self, user: str) -> None:
        """Returns when all ranks have connected.

        Raises:
          RuntimeError: a rank has ended, or has not connected within the timeout of a step.
        """
        if not self._has_met.wait(self._stall_seconds):
            raise RuntimeError(
                f"waited {self._stall_seconds:g} s ({STALL_TIMEOUT.name}) for "
                f"{self._absent_ranks()} to connect, as each rank has to before {user}: it has "
                "ended, is late, or does something else"
            )
        if self._error is not None:
            raise RuntimeError(f"the ranks cannot connect: {self._error}")

    def leave_at_exit(self) -> None:
        """Registers `leave` to run at exit before everything registered so far.

        That includes Horovod's shutdown, which each hvd.init() registers.
        """
        atexit.unregister(self.leave)
        atexit.register(self.leave)

    def leave(self) -> None:
        """Tells the other ranks that this one ends, and waits until they know."""
        if os.getpid() != self._process:  # a child of fork() is not a rank
            return
        if self._aborted is None:  # others may need rounds, even if a rank has already left
            self._library.sok_exchange_leave()
            if self._processes:
                self._thread.join(timeout=10 * HEARTBEAT_SECONDS)
        if self._aborted is not None:  # stays alive while others look for the lost ranks
            seconds = LOST_RANK_SECONDS + (SILENCE_SECONDS if self._elsewhere() else 0.0)
            time.sleep(max(0.0, self._aborted + seconds - time.monotonic()))

    def stats(self) -> CommunicationStats:
        """The counters so far."""
        counters = (ctypes.c_int64 * 4)()
        self._library.sok_exchange_counters(counters)
        exchanges, rounds, payload_bytes, negotiation_bytes = counters
        return CommunicationStats(
            exchanges,
            rounds,
            payload_bytes,
            negotiation_bytes,
            self._library.sok_exchange_num_saturated(),
        )

    def _run(self):
        try:
            self._processes, self.seed = self._gather_processes()
            self._share_processors()
            carries = self._connect()
            self._has_met.set()
            if carries:
                self._connection.run()
        except SettingsDifferError as error:
            self._end(str(error))
        except Exception as error:  # noqa: BLE001  whatever is raised ends all exchanges
            note = _gloo_note(self._library.sok_exchange_silent_seconds())
            self._abort(f"{note}{self._connection.name} says: {first_line(error)}")

    def _watch(self):
        """Ends all exchanges if they fail, or if a rank stops answering; each sends a heartbeat
        every HEARTBEAT_SECONDS. Warns of ranks that read the same rows."""
        failure = ctypes.create_string_buffer(2 * MOST_CHARACTERS)
        has_warned = self._connection.rank != 0
        while not self._library.sok_exchange_is_closed():
            time.sleep(WATCH_SECONDS)
            has_warned = has_warned or self._warn_of_same_rows()
            self._library.sok_exchange_failure(failure, ctypes.c_int64(len(failure)))
            if failure.value:
                self._abort(failure.value.decode(errors="replace"))
            elif self._library.sok_exchange_silent_seconds() > self._stall_seconds:
                self._abort(f"no answer for {self._stall_seconds:g} s ({STALL_TIMEOUT.name})")

    def _warn_of_same_rows(self):
        """Whether there was something to warn of."""
        alike = self._library.sok_exchange_ranks_alike()
        ranks = [rank for rank in range(64) if alike >> rank & 1]
        if ranks:
            _logger.warning(
                "%s read the same rows, as they look up the same keys: %d ranks then train as one "
                "rank would. Give each its share, before the dataset is shuffled and batched: "
                "dataset.shard(hvd.size(), hvd.rank())",
                _ranks(ranks),
                len(ranks),
            )
        return bool(ranks)

    def _abort(self, seen):
        with self._aborting:  # reported only once
            if self._aborted is not None or self._library.sok_exchange_is_closed():
                return
            self._aborted = time.monotonic()
        self._connection.abandon()
        self._end(f"{self._describe_lost_ranks()}; {seen}")

    def _end(self, reason):
        _logger.error("exchanges between ranks have ended: %s", reason)
        self._library.sok_exchange_abort(reason.encode())
        if not self._has_met.is_set():
            self._error = reason
            self._has_met.set()

    def _gather_processes(self):
        """({rank: _Process}, rank 0's seed). Waits for all ranks."""
        mine = f"{socket.gethostname()} {os.getpid()} {own_processors()} {draw_seed()}"
        self._connection.attendance.sign(self._connection.rank, mine)
        lines = self._connection.gather(mine)
        check_same_on_all_ranks(self._connection.gather(settings_in_words()))
        return _parse_processes(enumerate(lines)), int(lines[0].split()[3])

    def _share_processors(self):
        """Limits the threads of this rank's loops to its share of the host's processors.

        TensorFlow, on each rank, has a thread for every processor.
        """
        own = self._processes[self._connection.rank].processors
        of_host = [self._processes[rank].processors for rank in self._ranks_of_host()]
        num_threads = math.ceil(share_of_processors(own, of_host))
        self._library.sok_exchange_limit_threads(num_threads)
        _logger.info("loops of this rank's ops run on at most %d threads", num_threads)

    def _connect(self):
        """Chooses the transport, the same on all ranks of a host, and starts the exchanges.

        Returns:
          Whether the connection carries messages; either on all ranks or on none.
        """
        ranks, of_host = self._connection, self._ranks_of_host()
        memory = SharedMemory(self._library, ranks.rank, of_host, MOST_BYTES // ranks.size)
        is_wanted = self._may_share_memory and len(of_host) > 1
        is_shared = memory.connect(is_wanted, self._connection.gather)
        carries = not is_shared or len(of_host) < ranks.size
        if carries:
            ranks.prepare(HEARTBEAT_SECONDS)
        _logger.info(
            "exchanges between ranks go through %s",
            " and ".join(["shared memory"] * is_shared + [ranks.name] * carries),
        )
        self._library.sok_exchange_start(
            ranks.rank, ranks.size, self._stall_seconds, HEARTBEAT_SECONDS, MOST_BYTES
        )
        return carries

    def _ranks_of_host(self):
        own_host = self._processes[self._connection.rank].host
        return [rank for rank, (host, *_) in sorted(self._processes.items()) if host == own_host]

    def _absent_ranks(self):
        """Names the ranks that have not connected."""
        signed = self._connection.attendance.lines()
        absent = [rank for rank in range(self._connection.size) if rank not in signed]
        if not signed or not absent:
            return f"another rank{self._connection.who_is_absent}"
        return _ranks(absent)

    def _find_lost_ranks(self):
        """Ranks of this host that do not run.

        It polls, as a killed process closes its connections a moment before it is gone.
        """
        until = time.monotonic() + LOST_RANK_SECONDS
        processes = self._processes or _parse_processes(self._connection.attendance.lines().items())
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
        """{rank: host} of the ranks on other hosts."""
        mine = socket.gethostname()
        return {rank: host for rank, (host, *_) in self._processes.items() if host != mine}

    def _find_silent_ranks(self):
        """Ranks of other hosts that have not signed as survivors; None if this is unknown."""
        until = time.monotonic() + SILENCE_SECONDS
        while True:
            signed = self._connection.survivors.lines()
            if self._connection.rank not in signed:
                return None
            silent = [rank for rank in self._elsewhere() if rank not in signed]
            if not silent or time.monotonic() > until:
                return silent
            time.sleep(0.2)

    def _describe_lost_ranks(self):
        if self._elsewhere():
            self._connection.survivors.sign(self._connection.rank, "here")
        gone = self._find_lost_ranks()
        if gone:
            return f"lost {_ranks(gone)}: ended or stopped"
        if not self._processes:
            return f"{self._absent_ranks()} had not connected"
        elsewhere = self._elsewhere()
        return self._describe_silent_ranks(elsewhere) if elsewhere else "lost a rank"

    def _describe_silent_ranks(self, elsewhere):
        silent = self._find_silent_ranks()
        if silent is None and self._connection.survivors.exists:
            return (
                f"lost {_ranks(sorted(elsewhere))} on {_hosts(elsewhere.values())}: this host "
                "cannot reach the launcher's host"
            )
        if not silent:
            return f"lost a rank on {_hosts(elsewhere.values())}"
        hosts = _hosts(elsewhere[rank] for rank in silent)
        return f"lost {_ranks(silent)} on {hosts}: no sign of life, or unreachable"


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
    """A note if Horovod's own timeout has passed, which its error does not mention."""
    setting = os.environ.get(GLOO_VARIABLE, "30")  # Horovod's default
    if not setting.isdecimal() or waited_seconds < int(setting):
        return ""
    return (
        f"no answer for {waited_seconds:.0f} s, where Horovod gives up after "
        f"{GLOO_VARIABLE}={setting}, whatever {STALL_TIMEOUT.name} is; "
    )


def _is_running(pid):
    """Whether a process of this host runs: it is not gone, a zombie or stopped."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZTXx"
    except OSError:
        return False
