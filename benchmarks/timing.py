# SPDX-License-Identifier: Apache-2.0
"""Interleaved timing: all contenders see the same batches, in turn, on the same noisy machine."""

import statistics
import time

WARM_UP_ROUNDS = 8


def timed(function, *values):
    """Seconds of one call."""
    start = time.perf_counter()
    function(*values)
    return time.perf_counter() - start


def interleaved_medians(contenders, what, batches, rounds):
    """Median seconds of a step.

    Args:
      contenders: [Contender].
      what: the name of the op.
      batches: tuples of the ops' inputs, over and over.
      rounds: timed steps of each; some more come before them, to warm up.

    Returns:
      {name of the contender: seconds}.
    """
    seconds = {contender.name: [] for contender in contenders}
    for i in range(WARM_UP_ROUNDS + rounds):
        batch = batches[i % len(batches)]
        for contender in contenders:
            seconds[contender.name].append(timed(contender.run, what, *batch))
    return {name: statistics.median(taken[WARM_UP_ROUNDS:]) for name, taken in seconds.items()}
