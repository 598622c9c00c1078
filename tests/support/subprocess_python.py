# SPDX-License-Identifier: Apache-2.0
"""Code that needs a process of its own."""

import os
import subprocess
import sys
import textwrap

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
