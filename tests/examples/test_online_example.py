# SPDX-License-Identifier: Apache-2.0
"""The online example: what follows the trainer answers better, and Ctrl-C ends both processes."""

import signal
import subprocess
import sys
from pathlib import Path

SECONDS = 300
OPTIONS = ["--turn-seconds=20", "--save-seconds=0.5", "--threads=2", "--fixed-after=2"]


def test_the_model_that_follows_is_better(tmp_path):
    folder = tmp_path / "trained"
    command = [sys.executable, "-m", "examples.online", f"--folder={folder}", *OPTIONS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            heading = process.stdout.readline()
            assert heading.startswith("seconds  version")
            fixed = heading.split()[-1]
            lines = [process.stdout.readline().split() for _ in range(12)]
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == 128 + signal.SIGINT
        finally:
            process.kill()
    live_aucs, fixed_aucs = ([float(line[at]) for line in lines[-5:]] for at in (-2, -1))
    assert sum(live_aucs) > sum(fixed_aucs)
    versions = [line[1] for line in lines]
    assert len(set(versions)) > 3 and fixed not in versions[3:]
    assert not [each for each in Path("/proc").glob("[0-9]*/cmdline") if str(folder).encode()
                in _read(each)]  # fmt: skip


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""
