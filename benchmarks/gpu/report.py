# SPDX-License-Identifier: Apache-2.0
"""One report of a machine with a GPU: tests, rates and the sanitizer's tools, within a time limit.

`make gpu-report OUT=folder` runs it. Without nvcc, or with BUILT=1, it runs what build/cuda holds:
`make cuda-build CUDA_ARCHITECTURES=90` prepares that on another machine. It needs Python alone; the
Python tests also need pytest, NumPy and CuPy. OUT gets report.md, rewritten after each part, and a
log of each part.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "cuda"
SANITIZER_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


class Part(NamedTuple):
    """A command under a time limit in seconds; it does not run if it lacks what `missing` says."""

    name: str
    command: list[str]
    limit: float
    folder: Path = ROOT
    missing: str = ""


class Outcome(NamedTuple):
    part: Part
    result: str
    seconds: float
    output: str


def _output_of(*command: str) -> str:
    """What the command prints; '' if it fails or is not there."""
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _gpu() -> str:
    return _output_of(
        "nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"
    )


def _commit() -> str:
    """The commit of the sources; on a machine without the repository, of what was built."""
    built = BUILD / "commit"
    return _output_of("git", "describe", "--always", "--dirty") or (
        built.read_text() if built.exists() else "unknown"
    )


def _cpu_model() -> str:
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else "unknown"


def _build(architectures: str, is_built: bool, limit: float) -> Part:
    missing = ""
    if is_built:
        missing = "built before"
    elif not (os.environ.get("CUDACXX") or shutil.which("nvcc")):
        missing = "no nvcc on the PATH"
    elif architectures == "native" and not _gpu():
        missing = "no GPU to build for: CUDA_ARCHITECTURES=90 names one"
    return Part(
        "build",
        ["make", "cuda-build", f"CUDA_ARCHITECTURES={architectures}"],
        limit,
        missing=missing,
    )


def _parts(log_keys: int) -> list[Part]:
    """What runs after the build, the most important first."""
    gpu = "" if _gpu() else "no GPU"
    tests = sorted(BUILD.glob("*_cuda_test"))
    built = gpu or ("" if tests else f"nothing is built in {BUILD.relative_to(ROOT)}")
    tests = tests or [BUILD / "C++ tests"]  # for the report to say why there are none
    lacking = [
        name for name in ("pytest", "numpy", "cupy") if importlib.util.find_spec(name) is None
    ]
    python = built or (f"this Python has no {', no '.join(lacking)}" if lacking else "")
    sanitizer = built or (
        "" if shutil.which("compute-sanitizer") else "no compute-sanitizer on the PATH"
    )
    parts = [Part(test.name, [str(test)], 60, missing=built) for test in tests]
    parts.append(
        Part(
            "tests/engine",
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "-rfE",
                "tests/engine",
            ],
            120,
            folder=BUILD / "python",
            missing=python,
        )
    )
    parts.append(
        Part(
            "rates",
            [str(BUILD / "gpu_benchmark"), str(log_keys), "5", "32,128"],
            120,
            missing=built,
        )
    )
    for tool in SANITIZER_TOOLS:
        for test in tests:
            command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", str(test)]
            parts.append(Part(f"{test.name}, {tool}", command, 90, missing=sanitizer))
    return parts


def _run(part: Part, deadline: float, folder: Path) -> Outcome:
    limit = min(part.limit, deadline - time.monotonic())
    if part.missing or limit <= 0:
        return Outcome(part, f"not run: {part.missing or 'the time is over'}", 0.0, "")
    began = time.monotonic()
    log = folder / (re.sub(r"\W+", "_", part.name) + ".log")
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES=os.environ.get("CUDA_VISIBLE_DEVICES", "0"))
    with log.open("w") as file:
        process = subprocess.Popen(
            part.command,
            cwd=part.folder,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            status = process.wait(limit)
            result = "passed" if status == 0 else f"FAILED (status {status})"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            result = f"FAILED (not ended after {limit:.0f} s)"
    return Outcome(part, result, time.monotonic() - began, log.read_text(errors="replace"))


def _report(outcomes: list[Outcome]) -> str:
    failed = [outcome for outcome in outcomes if outcome.result.startswith("FAILED")]
    passed = sum(outcome.result == "passed" for outcome in outcomes)
    lines = [
        "# Report of a GPU",
        "",
        f"- GPU, driver, memory: {_gpu() or 'none'}",
        f"- Compiler: {(_output_of('nvcc', '--version').splitlines() or ['none'])[-1]}",
        f"- Processor: {os.cpu_count()} x {_cpu_model()}",
        f"- Commit: {_commit()}",
        f"- {passed} passed, {len(failed)} failed, {len(outcomes) - passed - len(failed)} not run",
        "",
        "| part | result | seconds |",
        "|---|---|---|",
    ]
    lines += [f"| {each.part.name} | {each.result} | {each.seconds:.1f} |" for each in outcomes]
    for each in outcomes:
        if each.part.name == "rates" and each.output:
            lines += ["", "## Rates", "", each.output.strip()]
    for each in failed:
        lines += [
            "",
            f"## {each.part.name}: the end of its output",
            "",
            "```",
            *each.output.splitlines()[-30:],
            "```",
        ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build" / "gpu-report", help="folder of the report"
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="all ends within this time")
    parser.add_argument("--architectures", default="native", help="what to compile for, such as 90")
    parser.add_argument(
        "--log-keys", type=int, default=25, help="log2 of the keys of the table that is measured"
    )
    parser.add_argument("--built", action="store_true", help="run what build/cuda holds")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + options.minutes * 60
    build = _build(options.architectures, options.built, options.minutes * 60)
    outcomes: list[Outcome] = []

    def run(part: Part) -> None:
        outcomes.append(_run(part, deadline, options.out))
        (options.out / "report.md").write_text(_report(outcomes))
        print(f"{part.name}: {outcomes[-1].result}", flush=True)

    run(build)
    if outcomes[0].result == "passed":
        (BUILD / "commit").write_text(_commit())
    for part in _parts(options.log_keys):
        run(part)
    print(f"The report is {options.out / 'report.md'}.")
    return int(any(outcome.result.startswith("FAILED") for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
