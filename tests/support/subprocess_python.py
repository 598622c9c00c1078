# SPDX-License-Identifier: Apache-2.0
"""Code that needs a process of its own."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


def run_python(code):
    """What the code printed; fails with its stderr when it fails."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def peak_mib():
    """The most memory that this process has had. What getrusage gives began with its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) // 1024
