# SPDX-License-Identifier: Apache-2.0
"""Runs a command and shows how far it is: how long it has run, with the last step that ninja or
make has told of. All of its output if it fails.

python cmake/progress.py "what it does" command arguments...
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time

_STEP = re.compile(r"\s*\[\s*(?:(\d+)/(\d+)|(\d+)%)\]")


def run(title: str, command: list, environment: dict | None = None) -> int:
    """The exit status. A terminal has one line that changes each second, a file one each minute."""
    print(title, flush=True)
    began, lines = time.monotonic(), []
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
    )
    reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    reader.start()
    is_terminal = sys.stdout.isatty()
    while reader.is_alive():
        reader.join(1 if is_terminal else 60)
        seconds = int(time.monotonic() - began)
        state = f"  {seconds // 60}:{seconds % 60:02} min{_step(lines)}"
        print(state, end="\r" if is_terminal else "\n", flush=True)
    if is_terminal:
        print()
    if process.wait() != 0:
        print("".join(lines), file=sys.stderr)
    return process.returncode


def _read(output, lines: list) -> None:
    for line in output:
        lines.append(line)


def _step(lines: list) -> str:
    """Of a build's output: ", step 3 of 8", ", 12 %", or nothing."""
    for line in reversed(lines):
        if step := _STEP.match(line):
            number, of, percent = step.groups()
            return f", {percent} %" if percent else f", step {number} of {of}"
    return ""


if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1], sys.argv[2:]))
    except KeyboardInterrupt:  # the command gets it, too
        sys.exit(130)
