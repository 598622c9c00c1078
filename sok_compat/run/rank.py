# SPDX-License-Identifier: Apache-2.0
"""`python -m sok_compat.run.rank folder command...`: runs a command, and notes its status."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def main(folder: str, *command: str) -> None:
    """Runs the command. Writes a nonzero status to a file named by the time, unless this process
    was told to end.

    Raises:
      SystemExit: with the status of the command.
    """
    status, is_told = status_of(command)
    if status and not is_told:
        Path(folder, str(time.time_ns())).write_text(str(status))
    sys.exit(status)


def status_of(command: Sequence[str]) -> tuple[int, bool]:
    """Runs a command, and forwards SIGTERM to it. It inherits files as a shell's command does.

    Returns:
      (the command's status as a shell reports it, whether SIGTERM was forwarded).
    """
    try:
        process = subprocess.Popen(command, close_fds=False)  # MPI's ranks inherit mpiexec's pipe
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]!r}: {error.strerror}\n")
        return 127, False
    told = []

    def tell(number, frame):
        told.append(number)
        process.send_signal(number)

    signal.signal(signal.SIGTERM, tell)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the command, too
    status = process.wait()
    return 128 - status if status < 0 else status, bool(told)


if __name__ == "__main__":
    main(*sys.argv[1:])
