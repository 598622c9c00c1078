# SPDX-License-Identifier: Apache-2.0
"""Processes that begin with TensorFlow imported: there in milliseconds, where an import takes
seconds. They are forks of a process that has imported it and done nothing else."""

import atexit
import dataclasses
import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


@dataclasses.dataclass(frozen=True)
class Program:
    """What a process runs, in the folder of the repository, in a session of its own."""

    code: str  # as of `python -c`
    environment: dict  # what TensorFlow reads at its import is as in QUIET
    output: str  # the file to append to
    errors: str  # may be the same
    arguments: tuple = ()


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a process ended, and when."""

    exit_code: int  # as subprocess has it: -9 after SIGKILL
    time: float  # as time.time()


class ForkServer:
    """A process that has imported TensorFlow and is forked; it ends with this one."""

    def __init__(self):
        self._connection, theirs = multiprocessing.Pipe()
        self._ended = {}  # {process id: Ended}
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-u",
                "-m",
                "tests.support.processes.fork_server",
                str(theirs.fileno()),
            ],
            cwd=REPOSITORY,
            # Of all that it imports, OpenBLAS alone starts threads.
            env={**os.environ, **QUIET, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        atexit.register(self._close)

    def run(self, programs, timeout):
        """Runs programs side by side; those that have not ended after `timeout` s are killed.

        Returns:
          [Ended, or None of one that was killed], in the order of the programs.
        """
        pids = [self._start(program) for program in programs]
        try:
            self._wait(pids, timeout)
            return [self._ended.get(pid) for pid in pids]
        finally:
            for pid in pids:
                if pid not in self._ended:
                    os.kill(pid, signal.SIGKILL)
            self._wait(pids, timeout=60)
            self._ended.clear()

    def _start(self, program):
        self._connection.send(dataclasses.asdict(program))
        pid = None
        while pid is None:
            pid = self._receive()
        return pid

    def _wait(self, pids, timeout):
        deadline = time.monotonic() + timeout
        while any(pid not in self._ended for pid in pids):
            if not self._connection.poll(max(0, deadline - time.monotonic())):
                break
            self._receive()

    def _receive(self):
        """The id of a process that has started; None: one has ended."""
        try:
            message = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.wait()
            raise RuntimeError(f"{self._process.args} ended by itself") from None
        if isinstance(message, int):
            return message
        pid, *how = message
        self._ended[pid] = Ended(*how)
        return None

    def _close(self):
        self._connection.close()
        self._process.wait()


@functools.cache
def fork_server():
    """The ForkServer of this process, which is started at its first use."""
    return ForkServer()
