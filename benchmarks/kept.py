# SPDX-License-Identifier: Apache-2.0
"""Figures of earlier runs, a JSON file each: `python -m benchmarks.kept` prints them by date.

Milliseconds of different machines cannot be compared; ratios within a run can.
"""

import dataclasses
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess

from benchmarks.tables import lines

FOLDER = pathlib.Path(__file__).parent / "history" / "figures"


@dataclasses.dataclass(frozen=True)
class Run:
    """The comparisons of one run, and what it ran on."""

    date: str
    commit: str
    machine: str
    versions: dict  # {library: version}
    comparisons: list  # [{"section", "what", "seconds": {contender: seconds}}], ours first

    def ratios(self):
        """{(section, contender): the geometric mean of how many times as fast as it we are}."""
        found = {}
        for one in self.comparisons:
            ours, *others = one["seconds"]
            for name in others:
                ratio = one["seconds"][name] / one["seconds"][ours]
                found.setdefault((one["section"], name), []).append(ratio)
        return {key: statistics.geometric_mean(ratios) for key, ratios in found.items()}


def keep(comparisons, folder=FOLDER):
    """Writes [(section, Comparison)] of a run that has just ended; returns the path."""
    import numpy as np
    import tensorflow as tf

    now = datetime.datetime.now()
    run = Run(
        date=now.date().isoformat(),
        commit=_commit(),
        machine=f"{processor()}, {os.cpu_count()} cores",
        versions={
            "tensorflow": tf.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        comparisons=[
            {"section": section, "what": one.what, "seconds": one.seconds}
            for section, one in comparisons
        ],
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{now:%Y-%m-%d-%H%M}-{run.commit}.json"
    path.write_text(json.dumps(dataclasses.asdict(run), indent=1) + "\n")
    return path


def read(folder=FOLDER):
    """The Runs in a folder, oldest first."""
    return [Run(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]


def table(runs):
    """A Markdown table: a row for each section and contender, a column for each run."""
    of_runs = [run.ratios() for run in runs]
    keys = list(dict.fromkeys(key for ratios in of_runs for key in ratios))
    headings = ["times as fast as", *(f"{run.date}, {run.commit}" for run in runs)]
    rows = [
        [f"{section}: {name}", *(f"{r[section, name]:.2f}" if (section, name) in r else ""
                                 for r in of_runs)]
        for section, name in keys
    ]  # fmt: skip
    return lines(headings, rows)


def processor():
    """The name of this machine's processor."""
    with open("/proc/cpuinfo") as info:
        names = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit():
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=FOLDER.parents[1], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    print(*table(read()), sep="\n")
