# SPDX-License-Identifier: Apache-2.0
"""Runs a script by the launcher, or by stock_tensorflow.py, in turns of a few steps:
`python paused_steps.py TURNS TIMES FILE arguments...`, FILE `-` for the launcher.

After three steps, and after each turn, it writes the seconds and processor seconds of the turn's
steps to the pipe TIMES, and reads how many steps come next from the pipe TURNS.
"""

import os
import runpy
import sys
import time

from sok_compat.run.distributions import answer_as_deeprec
from sok_compat.run.program import main

_FIRST_STEPS = 3  # of the first two, TensorFlow optimizes the graph: they fetch different tensors


class _Turn:
    """The turn in progress, of the hook that every script has."""

    def __init__(self, turns, times):
        self._turns, self._times = turns, times
        self._begin(_FIRST_STEPS)

    def count(self):
        """A step has ended."""
        self._left -= 1
        if self._left == 0:
            taken = [now - begin for now, begin in zip(_clocks(), self._begun)]
            os.write(self._times, f"{taken[0]} {taken[1]}\n".encode())
            self._begin(int(os.read(self._turns, 16)))

    def _begin(self, steps):
        self._left, self._begun = steps, _clocks()


def _clocks():
    return time.monotonic(), time.process_time()


def _count_steps(turn):
    from tensorflow.compat.v1.train import StopAtStepHook

    after_run = StopAtStepHook.after_run

    def counted(self, context, values):
        after_run(self, context, values)
        turn.count()

    StopAtStepHook.after_run = counted


if __name__ == "__main__":
    turns, times, file, *arguments = sys.argv[1:]
    answer_as_deeprec()  # as the launcher, before TensorFlow is imported
    _count_steps(_Turn(int(turns), int(times)))
    if file == "-":
        main(arguments)
    else:
        sys.argv = [file, *arguments]
        runpy.run_path(file, run_name="__main__")
