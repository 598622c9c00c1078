# SPDX-License-Identifier: Apache-2.0
"""Code that needs a process of its own."""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from tests.support.processes.forks import QUIET, Program, fork_server

TIMEOUT_SECONDS = 500


def run_python(code, is_fresh=False):
    """What the code printed; fails with its stderr when it fails.

    Args:
      code: the program.
      is_fresh: whether Python starts anew, for what is about imports or the environment at them;
        else TensorFlow, this package and Horovod are imported already.
    """
    code = textwrap.dedent(code)
    environment = {**os.environ, **QUIET}
    if is_fresh:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        exit_code, output, errors = done.returncode, done.stdout, done.stderr
    else:
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, name) for name in ("output", "errors")]
            program = Program(code, environment, *map(str, files))
            (ended,) = fork_server().run([program], TIMEOUT_SECONDS)
            exit_code = f"none after {TIMEOUT_SECONDS} s" if ended is None else ended.exit_code
            output, errors = (file.read_text() for file in files)
    assert exit_code == 0, f"exit code {exit_code}:\n{errors}"
    return output.strip()


def peak_mib():
    """The most memory that this process has had. What getrusage gives began with its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) // 1024
