# SPDX-License-Identifier: Apache-2.0
"""The online example: what follows the trainer answers better, and Ctrl-C ends both processes."""

import os
import signal
import subprocess
import sys
import time
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
    assert not _programs_with(folder)


def test_ctrl_c_while_it_starts(tmp_path):
    """As terminals send it: to all processes. They end without a word."""
    command = [sys.executable, "-m", "examples.online", f"--folder={tmp_path}"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert "Ctrl-C ends both" in process.stderr.readline()
            while [_imports_tensorflow(each) for each in _programs_with(tmp_path)] != [True] * 2:
                assert process.poll() is None
                time.sleep(0.1)
            os.killpg(process.pid, signal.SIGINT)
            assert process.stderr.read() == ""
            assert process.wait(SECONDS) == 128 + signal.SIGINT
        finally:
            process.kill()
    assert not _programs_with(tmp_path)


def test_a_trainer_that_fails(tmp_path):
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "examples.online", f"--folder={tmp_path}/file"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert result.returncode == 1
    assert "the trainer has ended with status 1" in result.stderr.splitlines()


def _programs_with(path):
    """The processes that have the path in their command line."""
    commands = Path("/proc").glob("[0-9]*/cmdline")
    return [each for each in commands if str(path).encode() in _read(each)]


def _imports_tensorflow(command):
    return b"/tensorflow/" in _read(command.parent / "maps")


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""
