# SPDX-License-Identifier: Apache-2.0
"""`python -m sok_compat.run.rank folder command...`: runs a command, and notes how it failed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sok_compat.run.console import rank_of_process

# In the environment of a command: the file for the Failure of its script, at once. Other ranks fail
# for that, may end before it, and have it killed.
NOTE = "SOK_NOTE_OF_RANK"
_OF_OTHERS = re.compile(r"rank (\d+)(?= has left| failed in this step)")


class Failure(NamedTuple):
    """How a rank failed."""

    when: int  # nanoseconds
    rank: str
    status: int
    error: str  # in one line; empty if it is not known


def main(folder: str, *command: str) -> None:
    """Runs the command. Writes a Failure to the folder if its status is nonzero, unless its script
    has done so, or this process was told to end.

    Raises:
      SystemExit: with the status of the command.
    """
    note = Path(folder, str(os.getpid()))
    status, signals = status_of(command, {NOTE: str(note)})
    if status and not signals and not note.exists():
        note_failure(note, status, "")
    sys.exit(status)


def note_failure(path: str | Path, status: int, error: str) -> None:
    """Writes the Failure of this rank, as a whole."""
    rank = rank_of_process() or "?"
    partial = f"{path}.partial"
    Path(partial).write_text(json.dumps(Failure(time.time_ns(), rank, status, error)))
    os.replace(partial, path)


def first_failure(folder: str) -> Failure | None:
    """The first Failure of those in the folder, but for ranks that failed since one of the others
    did: a rank may be noted after those that wait for it."""
    whole = [path for path in Path(folder).iterdir() if path.suffix != ".partial"]
    failures = sorted(Failure(*json.loads(path.read_text())) for path in whole)
    ranks = {failure.rank for failure in failures}
    causes = [each for each in failures if ranks.isdisjoint(_OF_OTHERS.findall(each.error))]
    return next(iter(causes or failures), None)


def status_of(
    command: Sequence[str],
    environment: dict[str, str] | None = None,
    in_own_session: bool = False,
) -> tuple[int, list[int]]:
    """Runs a command, and forwards SIGTERM to it, to one in a session of its own also SIGINT and
    SIGHUP. It inherits files as a shell's command does.

    Args:
      environment: variables for it, besides those of this process.
      in_own_session: whether a signal to this process's group, as from a terminal, reaches the
        command through this process alone: Horovod's launcher may hang if it comes twice.

    Returns:
      (the command's status as a shell reports it, signals by which this process was told to end).
    """
    variables = {**os.environ, **(environment or {})}
    try:
        # MPI's ranks inherit mpiexec's pipe.
        process = subprocess.Popen(
            command, close_fds=False, env=variables, start_new_session=in_own_session
        )
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]!r}: {error.strerror}\n")
        return 127, []
    signals = []

    def tell(number, frame):
        signals.append(number)
        if in_own_session or number == signal.SIGTERM:  # a terminal sends SIGINT to the command
            # Horovod's launcher ends its ranks on SIGTERM and SIGINT alone.
            process.send_signal(signal.SIGTERM if number == signal.SIGHUP else number)

    if in_own_session and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # not under nohup
        signal.signal(signal.SIGHUP, tell)
    signal.signal(signal.SIGTERM, tell)
    signal.signal(signal.SIGINT, tell)
    status = process.wait()
    return 128 - status if status < 0 else status, signals


if __name__ == "__main__":
    main(*sys.argv[1:])
