# SPDX-License-Identifier: Apache-2.0
"""`python -m sok_compat.run.launch command...`: runs a command as one process for each device.

It replaces DeepRec's `python -m tensorflow.python.distribute.launch`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from sok_compat.run.console import hide_deprecations
from sok_compat.run.rank import first_failure, status_of

USAGE = """\
usage: python -m sok_compat.run.launch [--mpi] [-np N] command...

Runs a command as N processes of this machine that Horovod connects, by Gloo; with --mpi, or where
Horovod is not installed and mpi4py is, mpiexec starts them and MPI connects them. A command that
begins with the name of a script, with -m or with --bfloat16 is one for python -m sok_compat.run.
Without -np there is a process for each GPU in CUDA_VISIBLE_DEVICES, or else NVIDIA_VISIBLE_DEVICES,
or else of the machine; where there is none, one. The status is that of the first process that
failed, whose error comes last; 130 after Ctrl-C, and 143 after SIGTERM.
"""

# Horovod's launcher, but for its stack where a rank fails: the ranks have logged why.
_HOROVODRUN = """
import sys
from horovod.runner.launch import run_commandline
try:
    run_commandline()
except RuntimeError as error:
    sys.exit(1 if "processes exited with non-zero" in str(error) else f"horovodrun: {error}")
"""


def main(arguments: Sequence[str]) -> None:
    """Runs the command line.

    Raises:
      SystemExit: with the status of the command; 2 if the arguments are invalid.
    """
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE, end="")
        return
    num_processes, by_mpi = None, False
    while arguments[:1] in (["--mpi"], ["-np"]):
        if arguments[0] == "--mpi":
            by_mpi, arguments = True, arguments[1:]
        else:
            num_processes = _checked_number(arguments[1] if len(arguments) > 1 else "nothing")
            arguments = arguments[2:]
    if not arguments:
        _refuse("a command is missing")
    command = list(arguments)
    if command[0] in ("-m", "--bfloat16") or command[0].endswith(".py"):
        command = [sys.executable, "-m", "sok_compat.run", *command]
    elif command[0].startswith("-"):
        _refuse(f"expected a command, got {command[0]!r}")
    sys.exit(run(command, num_processes or max(1, num_gpus(os.environ)), by_mpi))


def run(command: Sequence[str], num_processes: int, by_mpi: bool = False) -> int:
    """Runs a command as several processes, by mpiexec also where Horovod is installed if `by_mpi`;
    returns the status of the first that failed, or 0."""
    if num_processes == 1:
        return status_of(command)[0]
    starter = launcher(num_processes, by_mpi)
    hide_deprecations()  # Horovod's launcher imports TensorFlow
    with tempfile.TemporaryDirectory() as folder:
        of_rank = [sys.executable, "-m", "sok_compat.run.rank", folder]
        status, signals = status_of([*starter, *of_rank, *command], in_own_session=True)
        failure = first_failure(folder)
    if signals:
        return 128 + signals[0]
    if not status or failure is None:
        return status
    why = f": {failure.error}" if failure.error else ""
    sys.stderr.write(f"\nrank {failure.rank} failed first, with status {failure.status}{why}\n")
    return failure.status


def launcher(num_processes: int, by_mpi: bool) -> list[str]:
    """The command line that starts processes, but for what they run.

    Raises:
      SystemExit: nothing that is installed can.
    """
    has_horovod = importlib.util.find_spec("horovod") is not None
    if has_horovod and not by_mpi:
        return [sys.executable, "-c", _HOROVODRUN, "--gloo", "-np", str(num_processes)]
    mpiexec = _mpiexec()
    if mpiexec is not None and importlib.util.find_spec("mpi4py") is not None:
        return [mpiexec, "-n", str(num_processes)]
    if by_mpi:
        _refuse("--mpi needs mpiexec and mpi4py: pip install mpich mpi4py")
    _refuse(
        f"{num_processes} processes need Horovod, or mpiexec and mpi4py (pip install mpich "
        "mpi4py), and neither is installed; -np 1 does not"
    )


def _mpiexec():
    """The mpiexec beside this Python, as pip installs it, or else the one on the PATH."""
    beside = Path(sys.executable).parent
    return shutil.which("mpiexec", path=str(beside)) or shutil.which("mpiexec")


def num_gpus(environment: Mapping[str, str]) -> int:
    """How many GPUs a process with these environment variables would see."""
    for variable in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        listed = environment.get(variable)
        if listed is not None and listed != "all":
            names = [name.strip() for name in listed.split(",")]
            ends = [i for i, name in enumerate(names) if name in ("", "-1", "none", "void")]
            return ends[0] if ends else len(names)
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    except OSError:  # nvidia-smi is not installed
        return 0
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines())


def _checked_number(text):
    if not text.isdecimal() or int(text) < 1:
        _refuse(f"-np needs a number of processes, at least 1, got {text!r}")
    return int(text)


def _refuse(message: str) -> NoReturn:
    sys.stderr.write(f"python -m sok_compat.run.launch: {message}\n{USAGE}")
    sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
