# SPDX-License-Identifier: Apache-2.0
"""The last part of the demo: the SOK model once more, on processes that Horovod connects."""

import importlib.util
import re
import subprocess
import sys
import threading
import time
from typing import NamedTuple, Optional

from examples.dlrm import settings

INSTALL_HINT = "without Horovod there is no run on several processes; `make horovod` installs it"

_FIRST_RANK = re.compile(r"\[(?:1,)?0\]<stdout>:(.*)")  # what horovodrun puts before a line
_RESULT = re.compile(r"tested on \d+ samples: loss (\d\.\d+), AUC (\d\.\d+)")
_SECONDS_TO_END = 20
_LINES_OF_FAILURE = 15


class Outcome(NamedTuple):
    """What became of the run."""

    auc: Optional[float] = None
    loss: Optional[float] = None
    problem: str = ""  # why there are no figures
    has_failed: bool = False  # the problem is neither Ctrl-C nor the time


def is_possible():
    """Whether Horovod is installed; whether it works, only a run tells."""
    return importlib.util.find_spec("horovod") is not None


def train(num_ranks, options, data, num_steps, deadline, stop):
    """Trains for `num_steps` and tests with `horovodrun examples.dlrm.train`; returns an Outcome.

    Shows what rank 0 prints. Ends the run at `deadline` (of time.monotonic) and after Ctrl-C.
    """
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", str(num_ranks)]
    command += [sys.executable, "-m", "examples.dlrm.train"]
    command += ["--data", *map(str, data.train_paths), "--test-data", str(data.test_path)]
    command += ["--max-steps", str(num_steps), *settings.command_line(options)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that Ctrl-C reaches this process alone
    )
    lines = []
    relay = threading.Thread(target=_relay, args=(process.stdout, lines), daemon=True)
    relay.start()
    while process.poll() is None and not stop.is_set and time.monotonic() < deadline:
        time.sleep(0.1)
    was_ended = process.poll() is None
    _end(process)
    relay.join(_SECONDS_TO_END)
    if was_ended:
        return Outcome(problem="interrupted" if stop.is_set else "no time left for it")
    result = _RESULT.search("\n".join(lines))
    if process.returncode or not result:
        last = "\n".join(lines[-_LINES_OF_FAILURE:])
        problem = f"horovodrun ended with status {process.returncode}:\n{last}"
        return Outcome(problem=problem, has_failed=True)
    return Outcome(auc=float(result[2]), loss=float(result[1]))


def _relay(stream, lines):
    """Keeps all lines, and prints those of rank 0."""
    for line in stream:
        lines.append(line.rstrip("\n"))
        shown = _FIRST_RANK.match(line)
        if shown:
            print(shown[1], flush=True)


def _end(process):
    """Ends horovodrun, which ends the ranks; does nothing if it has ended."""
    process.terminate()
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
