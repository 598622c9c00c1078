# SPDX-License-Identifier: Apache-2.0
"""A step on two ranks, op by op: `python -m benchmarks.pictures.step`. Needs Horovod.

It is the step of benchmarks.communication with one layer. Of all steps that are traced it is the
fastest, which other programs of the machine have disturbed least; --real-time (as root) keeps them
away.
"""

import argparse
import json
import pathlib
import sys
import tempfile

from benchmarks.launching import run_program
from benchmarks.pictures import measured

NUM_RANKS = 2
_TIMEOUT_SECONDS = 600
_LEAST_MICROSECONDS = 10  # shorter ops are not recorded


def fastest(steps_of_ranks):
    """The step that all ranks took the least time for: [[op, begin, end] of a rank, by begin].

    Args:
      steps_of_ranks: for each rank the ops of each step, as step_of_rank has them.
    """

    def begin(step):
        return min(op[1] for ops in step for op in ops)

    def duration(step):
        return max(op[2] for ops in step for op in ops) - begin(step)

    step = min(zip(*steps_of_ranks), key=duration)
    first = begin(step)
    return [
        sorted(
            ([name, start - first, end - first] for name, start, end in ops), key=lambda op: op[1]
        )
        for ops in step
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--real-time", action="store_true", help="see benchmarks.communication")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = str(pathlib.Path(folder) / "{rank}.json")
        command = [sys.executable, "-m", "horovod.runner.launch", "-np", str(NUM_RANKS)]
        command += [sys.executable, "-m", "benchmarks.pictures.step_of_rank"]
        command += ["--steps", str(arguments.steps), "--result", result]
        command += ["--real-time"] * arguments.real_time
        run_program(command, _TIMEOUT_SECONDS)
        paths = [pathlib.Path(result.format(rank=rank)) for rank in range(NUM_RANKS)]
        ranks = fastest([json.loads(path.read_text()) for path in paths])
    ops = [[op for op in ops if op[2] - op[1] >= _LEAST_MICROSECONDS] for ops in ranks]
    measured.write("step", "python -m benchmarks.pictures.step", {"ops_of_ranks": ops})


if __name__ == "__main__":
    main()
