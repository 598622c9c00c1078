# SPDX-License-Identifier: Apache-2.0
"""`python -m sok_compat.run.rank folder command...`: a command, whose status others can read."""

import signal
import subprocess
import sys
import time
from pathlib import Path


def main(folder, *command):
    """Runs the command. A status other than 0 also goes to a file, named by when, unless the
    command was ended with this process.

    Raises:
      SystemExit: with its status.
    """
    status, is_told = status_of(command)
    if status and not is_told:
        Path(folder, str(time.time_ns())).write_text(str(status))
    sys.exit(status)


def status_of(command):
    """Runs a command, which gets the SIGTERM that this process gets.

    Returns:
      (its status as a shell has it, whether it got one).
    """
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]!r}: {error.strerror}\n")
        return 127, False
    told = []

    def tell(number, frame):
        told.append(number)
        process.send_signal(number)

    signal.signal(signal.SIGTERM, tell)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the command as well
    status = process.wait()
    return 128 - status if status < 0 else status, bool(told)


if __name__ == "__main__":
    main(*sys.argv[1:])
