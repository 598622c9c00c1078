# SPDX-License-Identifier: Apache-2.0
"""`python -m sok_compat.run.rank folder command...`: a command, whose status others can read."""

import subprocess
import sys
import time
from pathlib import Path


def main(folder, *command):
    """Runs the command; a status other than 0 also goes to a file, named by when.

    Raises:
      SystemExit: with its status, as a shell has it.
    """
    try:
        status = subprocess.call(command)
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]!r}: {error.strerror}\n")
        status = 127
    status = 128 - status if status < 0 else status  # ended by a signal
    if status:
        Path(folder, str(time.time_ns())).write_text(str(status))
    sys.exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
