# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.fuzz --cases 10000`: layers and inputs at random, right and wrong.

The cases run in a process of their own, which writes each to a file before it starts: a crash or
a hang is reported with the case that it happened in.
"""

import argparse
import os
import pathlib
import sys
import tempfile

from tests.fuzz import watch

SECONDS_PER_CASE = 120  # far more than any takes; a loaded machine may stop for long


def parse_arguments(arguments):
    """The command line, as argparse gives it."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="default: %(default)s")
    parser.add_argument(
        "--seed", type=int, help="of the cases (default: the same cases in every run)"
    )
    parser.add_argument("--log", type=pathlib.Path, help=argparse.SUPPRESS)  # of the child
    return parser.parse_args(arguments)


def main():
    """The console entry."""
    arguments = parse_arguments(None)
    if arguments.log:
        from tests.fuzz import layers

        layers.run(arguments.cases, arguments.seed, arguments.log)
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "case"
        words = [*sys.argv[1:], "--log", str(log)]
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz", *words]
        problem = watch.run(command, log, SECONDS_PER_CASE)
    if problem:
        sys.exit(problem)


if __name__ == "__main__":
    main()
