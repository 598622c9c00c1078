# SPDX-License-Identifier: Apache-2.0
"""Runs a worker script as several ranks under horovodrun, and brings back what each reported."""

import dataclasses
import importlib.util
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Optional

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER_VARIABLE = "SOK_TEST_FOLDER"

# Keeps each rank's output, process id and exit code in files of its own. Ends with 0, because
# horovodrun ends all ranks when one fails, before they have said what they saw.
_RANK_SCRIPT = """
cd "$SOK_TEST_FOLDER"; rank=${HOROVOD_RANK:-0}
(cd "$SOK_TEST_REPOSITORY"; exec "$@") > $rank.output 2>&1 < /dev/null & echo $! > $rank.pid
wait $!; echo $? > $rank.exit_code
"""


@dataclasses.dataclass(frozen=True)
class Rank:
    """What became of one rank."""

    exit_code: Optional[int]  # None: it had not ended when the time was over
    output: str
    report: Any  # what the worker gave to `report`; None: nothing
    ended: Optional[float]  # when, as time.time()


def horovodrun():
    """The program's path, beside this interpreter or on PATH; None without Horovod."""
    if importlib.util.find_spec("horovod") is None:
        return None
    beside = Path(sys.executable).with_name("horovodrun")
    return str(beside) if beside.exists() else shutil.which("horovodrun")


def run_ranks(worker, num_ranks, *arguments, timeout=100, environment=None):
    """Runs tests/distributed/workers/<worker>.py on each rank; a single one without horovodrun.

    Args:
      worker: the script's name.
      num_ranks: how many processes.
      *arguments: of the script.
      timeout: seconds, after which all ranks are killed.
      environment: variables for the ranks.

    Returns:
      [Rank], one for each.
    """
    program = [sys.executable, "-m", f"tests.distributed.workers.{worker}", *map(str, arguments)]
    launcher = [horovodrun(), "-np", str(num_ranks), "--gloo"] if num_ranks > 1 else []
    with tempfile.TemporaryDirectory() as folder:
        with subprocess.Popen(
            [*launcher, "sh", "-c", _RANK_SCRIPT, "rank", *program],
            env=_environment(folder, environment or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                said, _ = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                said = f"killed after {timeout} s"
            finally:
                _kill_ranks(folder)
                _end(process)
        return [_read_rank(folder, rank, said) for rank in range(num_ranks)]


def reports(ranks):
    """What all ranks reported; fails with their output if one has failed."""
    for number, rank in enumerate(ranks):
        assert rank.exit_code == 0 and rank.report is not None, (
            f"rank {number} of {len(ranks)}, exit code {rank.exit_code}:\n{rank.output}"
        )
    return [rank.report for rank in ranks]


def _environment(folder, extra):
    path = os.pathsep.join([str(REPOSITORY), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    return {
        **os.environ,
        "PYTHONPATH": path.rstrip(os.pathsep),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "-1",
        FOLDER_VARIABLE: folder,
        "SOK_TEST_REPOSITORY": str(REPOSITORY),
        **{name: str(value) for name, value in extra.items()},
    }


def _kill_ranks(folder):
    for path in Path(folder).glob("*.pid"):
        if path.with_suffix(".exit_code").exists():
            continue
        try:
            os.kill(int(path.read_text()), signal.SIGKILL)
        except (ProcessLookupError, ValueError):
            continue


def _end(process):
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def _read_rank(folder, rank, said):
    exit_code = Path(folder, f"{rank}.exit_code")
    output = Path(folder, f"{rank}.output")
    report = Path(folder, f"{rank}.report")
    return Rank(
        exit_code=int(exit_code.read_text()) if exit_code.exists() else None,
        output=output.read_text(errors="replace") if output.exists() else said,
        report=pickle.loads(report.read_bytes()) if report.exists() else None,
        ended=exit_code.stat().st_mtime if exit_code.exists() else None,
    )
