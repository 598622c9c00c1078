# SPDX-License-Identifier: Apache-2.0
"""Resident memory against the number of keys: `python -m benchmarks.pictures.memory`.

Rows of 16 floats with Adagrad; a plain variable has as many rows as keys will come.
"""

import gc

import tensorflow as tf

from benchmarks.contenders import PLAIN_NAME, make_ours, make_plain
from benchmarks.inserts import batches_of_new_keys, resident_bytes
from benchmarks.pictures import measured
from benchmarks.tables import OURS
from benchmarks.workload import Workload

NUM_KEYS = 5_000_000
DIM = 16
_CAPACITIES = (NUM_KEYS, 100 * NUM_KEYS)
_WARM_UP_KEYS = 200_000
_THREADS = 2


def of_ours(capacity, workload):
    """[[keys, bytes]] while all keys are new; a first table takes the memory that steps need."""
    with make_ours("adagrad", DIM, capacity, workload.num_features, _THREADS) as warm_up:
        for keys in batches_of_new_keys(0, _WARM_UP_KEYS, workload):
            warm_up.run("train", keys)
    gc.collect()
    with make_ours("adagrad", DIM, capacity, workload.num_features, _THREADS) as ours:
        before, num_keys = resident_bytes(), 0
        points = [[0, 0]]
        for keys in batches_of_new_keys(0, NUM_KEYS, workload):
            ours.run("train", keys)
            num_keys += keys.size
            points.append([num_keys, resident_bytes() - before])
    return points


def of_plain(workload):
    """[[keys, bytes]] of a variable, which has all its rows from the start."""
    gc.collect()
    before = resident_bytes()
    with make_plain(DIM, NUM_KEYS, workload.num_features, _THREADS):
        size = resident_bytes() - before
    return [[0, size], [NUM_KEYS, size]]


def main():
    tf.compat.v1.disable_eager_execution()
    workload = Workload()
    figures = {f"{OURS}, capacity {c:,}": of_ours(c, workload) for c in _CAPACITIES}
    figures[f"{PLAIN_NAME}, {NUM_KEYS:,} rows"] = of_plain(workload)
    figures = {"dim": DIM, "resident_bytes": figures}
    measured.write("memory", "python -m benchmarks.pictures.memory", figures)


if __name__ == "__main__":
    main()
