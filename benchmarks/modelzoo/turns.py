# SPDX-License-Identifier: Apache-2.0
"""Times the steps of scripts, in float32 and with --bfloat16, by default and with --tf:
`python -m benchmarks.modelzoo.turns --scripts FOLDER --models dlrm din`.

The variants of a script are processes that take turns of about a second; a signal stops the others.
A turn in which the rest of the machine took more than a fifth of a core is made again, up to three
times. Graphs, first steps, evaluation and checkpoints are not in the times.
"""

import argparse
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import time

from benchmarks.modelzoo import cases, running, scripts
from benchmarks.modelzoo.data import Data
from benchmarks.tables import lines

_CHILD = os.path.join(os.path.dirname(__file__), "paused_steps.py")
_NUM_BATCHES = 80  # of the data, over and over
_STEPS = 100_000  # that a script is told to make
_SECONDS_OF_TURN = 1.0
_MOST_STEPS = 20  # of a turn
_SHARE_OF_OTHERS = 0.2  # of a core
_TRIES = 3
DTYPES = ("float32", "bfloat16")


class Variant:
    """A script that runs with some flags, stopped between its turns."""

    def __init__(self, case, dtype, settings, data_folder, work):
        self.name = f"{case.label} {dtype}"
        self.turns = []  # (seconds, processor seconds) of a step
        self._folder = os.path.join(work, case.script.model.replace("/", "."), self.name)
        shutil.rmtree(self._folder, ignore_errors=True)
        os.makedirs(os.path.join(self._folder, "result"))  # some scripts expect it
        turns, self._turns = os.pipe()
        self._times, times = os.pipe()
        launcher = running.launcher(case)[0] if case.feature == cases.BASELINE else "-"
        command = [sys.executable, _CHILD, str(turns), str(times), launcher]
        command += ["--bfloat16"] * (dtype == "bfloat16")
        command += [case.script.path, *case.arguments(settings, data_folder)]
        self._output = os.path.join(self._folder, "output.txt")
        with open(self._output, "w") as output:
            self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                env=running.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(turns, times),
                start_new_session=True,
            )
        os.close(turns)
        os.close(times)

    def wait(self, time_limit=600.0):
        """(seconds, processor seconds) of the turn in progress, which it waits for."""
        ready, _, _ = select.select([self._times], [], [], time_limit)
        text = os.read(self._times, 100) if ready else b""
        if not text:
            raise RuntimeError(f"{self.name} ended, or made no step: see {self._output}")
        self._process.send_signal(signal.SIGSTOP)
        return tuple(float(number) for number in text.split())

    def turn(self, steps):
        """(seconds, processor seconds, those of the rest of the machine) of a turn."""
        busy = _busy_seconds()
        self._process.send_signal(signal.SIGCONT)
        os.write(self._turns, str(steps).encode())
        wall, own = self.wait()
        return wall, own, _busy_seconds() - busy - own

    def warm_up(self, seconds):
        """Runs for these seconds, and finds how many steps a turn has."""
        ends = time.monotonic() + seconds
        while True:
            wall, *_ = self.turn(2)
            if time.monotonic() > ends:
                break
        self._steps = max(2, min(_MOST_STEPS, round(2 * _SECONDS_OF_TURN / wall)))

    def measure(self):
        """Adds a turn to `turns`."""
        for _ in range(_TRIES):
            wall, own, others = self.turn(self._steps)
            if others < _SHARE_OF_OTHERS * wall:
                break
        self.turns.append((wall / self._steps, own / self._steps))

    def medians(self):
        """(seconds, processor seconds) of a step."""
        return tuple(statistics.median(column) for column in zip(*self.turns))

    def close(self):
        """Ends the process."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _busy_seconds():
    """Processor seconds of all processes since the machine started."""
    with open("/proc/stat") as stream:
        user, nice, system, _, _, *interrupts = map(int, stream.readline().split()[1:9])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def times_of(script, parsed, data):
    """{name of a variant: (seconds, processor seconds) of a step}."""
    settings = cases.Settings(_STEPS, parsed.batch_size)
    found = {case.feature: case for case in reversed(cases.cases_of(script)) if case.num_ranks == 1}
    folder, work = data.folder(script.data_format), os.path.abspath(parsed.work)
    variants = []
    try:
        for feature in parsed.flags:
            variants += [
                Variant(found[feature], dtype, settings, folder, os.path.join(work, "turns"))
                for dtype in parsed.dtypes
            ]
        for variant in variants:
            variant.wait()
        for variant in variants:
            variant.warm_up(parsed.warm_up)
        for number in range(parsed.turns):
            for variant in variants[:: 1 if number % 2 == 0 else -1]:
                variant.measure()
        return {variant.name: variant.medians() for variant in variants}
    finally:
        for variant in variants:
            variant.close()


def main(arguments=None):
    """Prints a table of each script as soon as it is measured."""
    parsed = _parser().parse_args(arguments)
    samples = _NUM_BATCHES * parsed.batch_size
    data = Data(os.path.join(parsed.work, "data"), samples, parsed.batch_size)
    for script in scripts.find_scripts(parsed.scripts):
        if script.model in parsed.models:
            times = times_of(script, parsed, data)
            rows = [[name, *(f"{1e3 * each:.1f}" for each in of)] for name, of in times.items()]
            heading = [script.model, "ms a step", "processor ms a step"]
            print("\n".join(lines(heading, rows)), flush=True)


def _parser():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scripts", required=True, metavar="FOLDER")
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--flags", nargs="+", default=[cases.DEFAULT, cases.BASELINE])
    parser.add_argument("--dtypes", nargs="+", default=DTYPES, choices=DTYPES)
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--turns", type=int, default=6, help="that count, of each variant")
    parser.add_argument("--warm-up", type=float, default=2, help="seconds of each variant")
    parser.add_argument("--work", default="runs/modelzoo", help="folder for data and output")
    return parser


if __name__ == "__main__":
    main()
