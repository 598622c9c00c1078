# SPDX-License-Identifier: Apache-2.0
"""Runs one case in a process group of its own, by the launcher, and reads its output."""

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Optional

from benchmarks.modelzoo import logs, op_times
from benchmarks.modelzoo.cases import BASELINE
from benchmarks.modelzoo.op_times import OpTimes

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_SECONDS_TO_END = 10  # after SIGTERM
_OUTPUT, _STATUS = "output.txt", "status.txt"


@dataclasses.dataclass(frozen=True)
class Result:
    """How a run ended."""

    case: object
    findings: logs.Findings
    error: str = ""  # empty: it has trained, and ended well
    op_times: Optional[OpTimes] = None  # if asked for

    @property
    def runs(self):
        return not self.error


def run_case(case, settings, data_folder, work, time_limit, keeps=False):
    """Runs it in a folder of its own, where output.txt keeps what it printed, and after how many
    seconds.

    Args:
      case, settings: see cases.py.
      data_folder: generated data of the script's format.
      work: folder for the folders of runs.
      time_limit: seconds.
      keeps: whether the output of an earlier run by the same command is read in place of a run.

    Returns:
      Result.
    """
    folder = os.path.join(work, case.script.model.replace("/", "."), _name_of(case))
    arguments = case.arguments(settings, data_folder)
    command = [sys.executable, *launcher(case), case.script.path, *arguments]
    kept = _kept(command, folder) if keeps else None
    if kept is None:
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.join(folder, "result"))  # some scripts expect it
        kept = _run(command, folder, time_limit)
    lines, status = kept
    findings = logs.read(lines, settings.steps)
    times = op_times.read(folder) if settings.timeline_steps else None
    _remove_checkpoints(folder)
    return Result(case, findings, _error(status, lines, findings, time_limit), times)


def _remove_checkpoints(folder):
    """Removes what a script has written, but timelines: those of all runs take tens of GB."""
    for above, _, names in os.walk(folder):
        for name in names:
            if name not in (_OUTPUT, _STATUS) and not name.startswith(op_times.FLAG):
                os.unlink(os.path.join(above, name))


def launcher(case):
    if case.feature == BASELINE:
        return [os.path.join(os.path.dirname(__file__), "stock_tensorflow.py")]
    if case.num_ranks == 1:
        return ["-m", "sok_compat.run"]
    return ["-m", "sok_compat.run.launch", "-np", str(case.num_ranks)]


def _error(status, lines, findings, time_limit):
    texts = [line.text for line in lines]
    if status is None:
        return f"not done in {time_limit:g} s: {texts[-1] if texts else 'no output'}"
    if status:
        return logs.error_of(texts)
    return "" if findings.has_trained else f"ended without a step: {logs.error_of(texts)}"


def _kept(command, folder):
    """([Line], status) of an earlier run by this command that ended by itself, else None."""
    try:
        status = int(Path(folder, _STATUS).read_text())
        first, *texts = Path(folder, _OUTPUT).read_text().rstrip("\n").split("\n")
    except OSError:
        return None
    if first != " ".join(command):
        return None
    return [logs.Line(float(text[:7]), text[9:]) for text in texts], status


def _run(command, folder, time_limit):
    """([Line], status); the status is None where time ran out."""
    lines, start = [], time.monotonic()
    with open(os.path.join(folder, _OUTPUT), "w") as output:
        output.write(" ".join(command) + "\n")
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )

        def read():
            for text in process.stdout:
                lines.append(logs.Line(time.monotonic() - start, text.rstrip("\n")))
                output.write(f"{lines[-1].seconds:7.2f}  {lines[-1].text}\n")

        reader = threading.Thread(target=read)
        reader.start()
        try:
            status = process.wait(time_limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end(process)
            reader.join()
    if status is not None:
        Path(folder, _STATUS).write_text(f"{status}\n")
    return lines, status


def _end(process):
    """Ends what is left of the process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            continue


def environment():
    """This process's, without the source tree, which would hide the installed package."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [path for path in paths if path and os.path.abspath(path) != _ROOT]
    return {
        "TF_CPP_MIN_LOG_LEVEL": "2",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",  # the folder of scripts stays as it is
        "PYTHONUNBUFFERED": "1",  # lines get the time at which they are written
    }


def _name_of(case):
    """A name for the folder of a run."""
    name = re.sub(r"[^\w.]+", "-", case.label.strip("-"))
    return f"{name}.{case.num_ranks}" if case.num_ranks > 1 else name
