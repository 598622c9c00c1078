# SPDX-License-Identifier: Apache-2.0
"""The fuzzer with the same cases in every run, and that it notices what it is for."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import watch

ROOT = Path(__file__).parents[2]
NUM_CASES = 8


@pytest.mark.thorough
def test_layers():
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--cases", str(NUM_CASES)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {name: int(count.replace(",", ""))
              for count, name in re.findall(r"([\d,]+) x ([a-z ]+)", done.stdout)}  # fmt: skip
    assert set(counts) == {
        "full table", "right result", "wrong argument", "wrong batch", "wrong call",
    }  # fmt: skip
    assert min(counts.values()) >= 1


CHILDREN = {
    "ends": ("", None),
    "fails": ("raise SystemExit(3)", "failed with exit status 3; last case:\nthe case"),
    "crashes": ("os.kill(os.getpid(), signal.SIGSEGV)", "crashed with signal 11 in:\nthe case"),
    "hangs": ("time.sleep(60)", "nothing for 2 s in:\nthe case"),
}


@pytest.mark.parametrize("end, problem", CHILDREN.values(), ids=CHILDREN)
def test_a_process_is_watched(tmp_path, end, problem):
    log = tmp_path / "log"
    code = "import os, pathlib, signal, sys, time; pathlib.Path(sys.argv[1]).write_text('the case')"
    assert watch.run([sys.executable, "-c", f"{code}; {end}", str(log)], log, 2) == problem
