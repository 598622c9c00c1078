# SPDX-License-Identifier: Apache-2.0
"""Programs that benchmarks start: what is measured runs in processes of its own."""

import os
import subprocess


def run_program(command, timeout, environment=None):
    """Runs it to its end.

    Args:
      command: the program and its arguments.
      timeout: seconds.
      environment: variables beside this process's.

    Raises:
      RuntimeError: it failed; with the end of what it has printed.
      subprocess.TimeoutExpired: it had not ended in time.
    """
    done = subprocess.run(
        command,
        env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}")
