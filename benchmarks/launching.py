# SPDX-License-Identifier: Apache-2.0
"""Programs that benchmarks start: what is measured runs in processes of its own."""

import os
import subprocess
import sys
from pathlib import Path

MPIEXEC = str(Path(sys.executable).parent / "mpiexec")  # of the package mpich

# How ranks exchange -> their environment. The first two are started by horovodrun, the others by
# mpiexec.
WAYS = {
    "memory": {},
    "horovod": {"SOK_SHARED_MEMORY": "0"},
    "mpi": {"SOK_SHARED_MEMORY": "0"},
    "mpi and memory": {},
}


def launcher(way, num_ranks):
    """The command line that starts ranks, but for the program; empty for one."""
    if num_ranks == 1:
        return []
    if way.startswith("mpi"):
        return [MPIEXEC, "-n", str(num_ranks)]
    return [sys.executable, "-m", "horovod.runner.launch", "--gloo", "-np", str(num_ranks)]


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
