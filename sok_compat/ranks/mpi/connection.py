# SPDX-License-Identifier: Apache-2.0
"""The connection of MPI's ranks."""

from __future__ import annotations

import ctypes
import functools
import os
import socket
import time

from sok_compat.ranks.connection import Connection
from sok_compat.ranks.launched import mpi_rank, mpi_size
from sok_compat.ranks.mpi.library import (
    POLL_SECONDS,
    break_off,
    end_at_exit,
    library,
    wait_for,
)

_ERROR_BYTES = 1000
_SILENT_SECONDS = 2.0  # without a heartbeat
_LONGEST_LINE = 1 << 16
_FUNCTIONS = ("Isend", "Test", "Improbe", "Imrecv", "Get_count", "Error_string")


class _Library(ctypes.Structure):
    """MpiLibrary of ops/exchange/transport/mpi_port.h."""

    _fields_ = (
        ("handle_bytes", ctypes.c_int64),
        ("communicator", ctypes.c_void_p),
        ("byte_type", ctypes.c_void_p),
        ("any_source", ctypes.c_int64),
        *((name.lower(), ctypes.c_void_p) for name in _FUNCTIONS),
    )


class MpiConnection(Connection):
    """The Connection of MPI: messages between the ranks, on communicators of their own.

    Attributes:
      attendance: whose lines have come.
      survivors: who gives signs of life.
    """

    name = "MPI"

    def __init__(self, op_library: ctypes.CDLL) -> None:
        """MPI is not started yet."""
        end_at_exit()
        self._op_library = op_library
        self.rank, self.size = mpi_rank(), mpi_size()
        self.attendance = _Attendance(self.size)
        self.survivors = _Survivors(op_library, self.size)

    @functools.cached_property
    def _mpi(self):
        """Waits for all ranks."""
        mpi = library()
        found = mpi.COMM_WORLD.Get_rank(), mpi.COMM_WORLD.Get_size()
        if found != (self.rank, self.size):
            raise RuntimeError(
                f"mpiexec started rank {self.rank} of {self.size}, and MPI counts it as rank "
                f"{found[0]} of {found[1]}: is mpiexec of the MPI that mpi4py has loaded?"
            )
        return mpi

    @functools.cached_property
    def _lines(self):
        return self._own_communicator()

    @functools.cached_property
    def _messages(self):
        return self._own_communicator()

    def _own_communicator(self):
        communicator = self._mpi.COMM_WORLD.Dup()
        communicator.Set_errhandler(self._mpi.ERRORS_RETURN)
        return communicator

    def gather(self, line: str) -> list[str]:
        mine = f"{line}\n".encode()
        sent = [self._lines.Isend([mine, self._mpi.BYTE], rank) for rank in range(self.size)]
        buffers = [bytearray(_LONGEST_LINE) for _ in range(self.size)]
        waiting = {rank: self._lines.Irecv(each, rank) for rank, each in enumerate(buffers)}
        found: dict[int, str] = {}
        while waiting:
            for rank in [rank for rank, request in waiting.items() if request.Test()]:
                del waiting[rank]
                found[rank] = buffers[rank].partition(b"\n")[0].decode()
                self.attendance.sign(rank, found[rank])
            if waiting:
                time.sleep(POLL_SECONDS)
        for request in sent:
            wait_for(request)
        return [found[rank] for rank in range(self.size)]

    def prepare(self, heartbeat_seconds: float) -> None:
        of_mpi = ctypes.CDLL(self._mpi.__file__)
        functions = [getattr(of_mpi, f"MPI_{name}") for name in _FUNCTIONS]
        sizeof, addressof = self._mpi._sizeof, self._mpi._addressof
        described = _Library(
            sizeof(self._mpi.Comm),
            addressof(self._messages),
            addressof(self._mpi.BYTE),
            self._mpi.ANY_SOURCE,
            *(ctypes.cast(function, ctypes.c_void_p) for function in functions),
        )
        process_ids = (ctypes.c_int64 * self.size)(*self._gather_process_ids())
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        self._op_library.sok_exchange_use_mpi(
            ctypes.byref(described),
            self.rank,
            self.size,
            process_ids,
            ctypes.c_double(heartbeat_seconds),
            error,
            ctypes.c_int64(_ERROR_BYTES),
        )
        if error.value:
            raise RuntimeError(error.value.decode(errors="replace"))

    def abandon(self) -> None:
        """After a rank was lost: MPI's end would wait for it."""
        break_off()

    def _gather_process_ids(self):
        """[ranks] of the ids by which this process can watch them; 0 where it cannot."""
        place = f"{socket.gethostname()}/{os.stat('/proc/self/ns/pid').st_ino}"
        lines = [line.split() for line in self.gather(f"{place} {os.getpid()}")]
        return [int(pid) if theirs == place else 0 for theirs, pid in lines]


class _Attendance:
    """The ranks whose first line has come, in the place of horovod.attendance.Attendance."""

    exists = True

    def __init__(self, size: int) -> None:
        self._size = size
        self._lines: dict[int, str] = {}

    def sign(self, rank: int, text: str) -> None:
        """Keeps the first line of a rank."""
        self._lines.setdefault(rank, text)

    def lines(self) -> dict[int, str]:
        """{rank: line}; empty before other ranks could send theirs."""
        return dict(self._lines) if len(self._lines) > 1 or self._size == 2 else {}


class _Survivors:
    """The ranks that give signs of life; likewise."""

    exists = True

    def __init__(self, op_library: ctypes.CDLL, size: int) -> None:
        self._op_library = op_library
        self._size = size

    def sign(self, rank: int, text: str) -> None:
        """Does nothing: heartbeats are signs of life."""

    def lines(self) -> dict[int, str]:
        """{rank: "here"} of these ranks."""
        silent = (ctypes.c_int * self._size)()
        count = self._op_library.sok_exchange_silent_ranks(ctypes.c_double(_SILENT_SECONDS), silent)
        return {rank: "here" for rank in range(self._size) if rank not in silent[:count]}
