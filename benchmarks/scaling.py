# SPDX-License-Identifier: Apache-2.0
"""Our training step with more threads, and with keys that repeat more or less."""

import statistics

import numpy as np
import tensorflow as tf

from benchmarks.contenders import make_ours
from benchmarks.timing import WARM_UP_ROUNDS, in_turns, timed
from benchmarks.training import insert_all_keys

THREADS = (1, 2, 4, 8)
STEPS_OF_A_TURN = 10
DISTRIBUTION_BAR = 1.5  # times the step with Zipf keys


class _ThreadedStep:
    """A contender in a process of its own: its first session sets a process's threads."""

    def __init__(self, number, dim, workload):
        tf.compat.v1.disable_eager_execution()
        sizes = (dim, workload.num_keys, workload.num_features, number)
        self._ours = make_ours("adagrad", *sizes)
        self._batches = workload.batches()
        self._next = 0
        insert_all_keys([self._ours], workload)

    def run(self, steps):
        """Seconds of each step."""
        seconds = []
        for _ in range(steps):
            seconds.append(timed(self._ours.run, "train", self._batches[self._next]))
            self._next = (self._next + 1) % len(self._batches)
        return seconds


def _start(*args):
    global _step
    _step = _ThreadedStep(*args)


def _run(steps):
    return _step.run(steps)


def threads(dim, workload, rounds):
    """{number of threads: seconds of a step}; the processes take turns, a few steps each."""
    arguments = {number: (number, dim, workload) for number in THREADS}
    seconds = in_turns(_start, _run, arguments, rounds // STEPS_OF_A_TURN, STEPS_OF_A_TURN)
    return {number: statistics.median(taken) for number, taken in seconds.items()}


def _kinds_of_batches(workload):
    """{name: [batch]}."""
    random = np.random.default_rng(workload.seed)
    zipf = workload.batches()
    hot = np.where(random.random(zipf.shape) < 0.5, zipf[0, 0, 0], zipf)
    size = zipf[0].size
    distinct = [
        random.choice(workload.num_keys, size, replace=False).reshape(zipf[0].shape)
        for _ in range(len(zipf))
    ]
    return {"Zipf": zipf, "half of one key": hot, "all distinct": distinct}


def distributions(dim, workload, num_threads, rounds):
    """{kind of keys: (distinct keys in a batch, seconds of a step)}; the kinds take turns."""
    kinds = _kinds_of_batches(workload)
    seconds = {kind: [] for kind in kinds}
    args = ("adagrad", dim, workload.num_keys, workload.num_features, num_threads)
    with make_ours(*args) as ours:
        insert_all_keys([ours], workload)
        for i in range(WARM_UP_ROUNDS + rounds):
            for kind, batches in kinds.items():
                seconds[kind].append(timed(ours.run, "train", batches[i % len(batches)]))
    return {
        kind: (
            int(np.mean([len(np.unique(batch)) for batch in batches])),
            statistics.median(seconds[kind][WARM_UP_ROUNDS:]),
        )
        for kind, batches in kinds.items()
    }
