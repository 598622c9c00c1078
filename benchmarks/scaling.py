# SPDX-License-Identifier: Apache-2.0
"""Our training step with more threads, and with keys that repeat more or less."""

import contextlib
import statistics

import numpy as np

from benchmarks.contenders import make_ours
from benchmarks.timing import WARM_UP_ROUNDS, interleaved_medians, timed
from benchmarks.training import insert_all_keys

THREADS = (1, 2, 4, 8)
DISTRIBUTION_BAR = 1.5  # times the step with Zipf keys


def threads(dim, workload, rounds):
    """{number of threads: seconds of a step}."""
    batches = [(batch,) for batch in workload.batches()]
    with contextlib.ExitStack() as stack:
        contenders = {}
        for number in THREADS:
            ours = make_ours("adagrad", dim, workload.num_keys, workload.num_features, number)
            ours.name = number
            contenders[number] = stack.enter_context(ours)
        insert_all_keys(contenders.values(), workload)
        return interleaved_medians(list(contenders.values()), "train", batches, rounds)


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
