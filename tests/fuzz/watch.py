# SPDX-License-Identifier: Apache-2.0
"""Runs a process that writes what it does to a file, and says in what it crashed or hung."""

import subprocess
import time

_SECONDS_BETWEEN_LOOKS = 0.2


def run(command, log, seconds):
    """None, or the problem as text: the process failed, crashed, or hung.

    Args:
      command: the process, a list of words.
      log: pathlib.Path of the file that it writes; need not exist yet.
      seconds: how long it may go on without writing.
    """
    process = subprocess.Popen(command)
    try:
        has_hung = _has_hung(process, log, seconds)
    finally:
        process.kill()
        process.wait()
    if has_hung:
        return f"nothing for {seconds} s in:\n{_text(log)}"
    if process.returncode < 0:
        return f"crashed with signal {-process.returncode} in:\n{_text(log)}"
    if process.returncode > 0:
        return f"failed with exit status {process.returncode}; last case:\n{_text(log)}"
    return None


def _has_hung(process, log, seconds):
    """Waits until the process has ended (False), or has not written for `seconds` (True)."""
    last_state, last_change = None, time.monotonic()
    while process.poll() is None:
        state = log.stat().st_mtime_ns if log.exists() else None
        if state != last_state:
            last_state, last_change = state, time.monotonic()
        if time.monotonic() - last_change > seconds:
            return True
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return False


def _text(log):
    return log.read_text() if log.exists() else "(no case yet)"
