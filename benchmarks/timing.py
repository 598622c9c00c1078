# SPDX-License-Identifier: Apache-2.0
"""Interleaved timing: all contenders see the same batches, in turn, on the same noisy machine."""

import statistics
import time


def interleaved_medians(runs, batches, rounds):
    """Median seconds of each run.

    Args:
      runs: {name: callable of one batch}.
      batches: what is passed on, over and over.
      rounds: timed calls of each run.

    Returns:
      {name: median seconds}.
    """
    seconds = {name: [] for name in runs}
    for i in range(rounds):
        batch = batches[i % len(batches)]
        for name, run in runs.items():
            start = time.perf_counter()
            run(batch)
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}
