# SPDX-License-Identifier: Apache-2.0
"""cmake/progress.py, which shows how far a build is."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRESS = Path(__file__).resolve().parents[2] / "cmake" / "progress.py"
BUILD = "import sys\nfor n in range(1, 9): print(f'  [{n}/8] Building')\nprint('last words')\n"


@pytest.mark.parametrize("status", [0, 3])
def test_shows_steps_and_the_output_of_failures(status):
    program = BUILD + f"sys.exit({status})"
    done = subprocess.run(
        [sys.executable, PROGRESS, "compiling", sys.executable, "-c", program],
        capture_output=True,
        text=True,
    )
    assert done.returncode == status
    steps = [f"  step {n} of 8" for n in (1, 2, 4, 6, 8)]
    assert done.stdout.splitlines() == ["compiling", *steps]
    assert ("last words" in done.stderr) == (status != 0)
