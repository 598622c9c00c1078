# SPDX-License-Identifier: Apache-2.0
"""cmake/progress.py, which shows how far a build is."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

PROGRESS = Path(__file__).resolve().parents[2] / "cmake" / "progress.py"
NINJA = "for n in range(1, 9): print(f'  [{n}/8] Building')\n"
MAKE = "print('[  7%] Building')\nprint('[ 93%] Linking')\n"


def command(program):
    return [sys.executable, PROGRESS, "compiling", sys.executable, "-uc", program]


@pytest.mark.parametrize("status", [0, 3])
@pytest.mark.parametrize("build, step", [(NINJA, ", step 8 of 8"), (MAKE, ", 93 %"), ("", "")])
def test_shows_time_and_step_and_the_output_of_failures(build, step, status):
    program = f"import sys\n{build}print('last words')\nsys.exit({status})"
    done = subprocess.run(command(program), capture_output=True, text=True)
    assert done.returncode == status
    title, *_, last = done.stdout.splitlines()
    assert title == "compiling"
    assert last.startswith("  0:0") and last.endswith(f" min{step}")
    assert ("last words" in done.stderr) == (status != 0)


def test_a_terminal_sees_that_it_is_alive():
    """Each second, also where the build is silent."""
    terminal, end = pty.openpty()
    program = "import time\nprint('[1/2] Building')\ntime.sleep(2.5)\nprint('[2/2] Linking')"
    subprocess.run(command(program), stdout=end, check=True)
    os.close(end)
    shown = os.read(terminal, 10_000).decode()
    os.close(terminal)
    for state in ("0:01 min, step 1 of 2\r", "0:02 min, step 1 of 2\r", "min, step 2 of 2\r"):
        assert state in shown
