# SPDX-License-Identifier: Apache-2.0
"""Interleaved timing: all contenders see the same batches, in turn, on the same noisy machine."""

import contextlib
import multiprocessing
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


def in_turns(start, run, arguments, turns, steps):
    """Runs steps in a process for each name; the processes take turns, of which the first warms up.

    Args:
      start: a function that prepares a process.
      run: a function that takes a number of steps there and returns a list, of one for each.
      arguments: {name: arguments of start}.
      turns, steps: how many turns count, and the steps of a turn.

    Returns:
      {name: what run returned}.
    """
    context = multiprocessing.get_context("spawn")
    taken = {name: [] for name in arguments}
    with contextlib.ExitStack() as stack:
        pools = {
            name: stack.enter_context(context.Pool(1, start, of_process))
            for name, of_process in arguments.items()
        }
        for turn in range(1 + turns):
            for name, pool in pools.items():
                of_turn = pool.apply(run, (steps,))
                if turn > 0:
                    taken[name] += of_turn
    return taken
