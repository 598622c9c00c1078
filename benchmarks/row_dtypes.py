# SPDX-License-Identifier: Apache-2.0
"""Steps of tables by the dtype of their rows: `python -m benchmarks.row_dtypes`.

Steps are in turn, in one run; times are also printed as parts of float32's with Adagrad.
"""

import argparse
import contextlib

import tensorflow as tf

from benchmarks.contenders import make_ours
from benchmarks.tables import lines
from benchmarks.timing import interleaved_medians
from benchmarks.training import insert_all_keys
from benchmarks.workload import Workload

KINDS = [
    *(("adagrad", dtype) for dtype in ("float32", "bfloat16", "float16")),
    *(("row-wise adagrad", dtype) for dtype in ("float32", "bfloat16")),
]
DIMS = (16, 64, 128)
NUM_KEYS = 500_000
THREADS = 2


def steps(dims, rounds):
    """Lines: milliseconds of a training step and of a lookup."""
    workload, rows = Workload(num_keys=NUM_KEYS), []
    batches = [(batch,) for batch in workload.batches()]
    for dim in dims:
        with contextlib.ExitStack() as stack:
            sizes = (dim, workload.num_keys, workload.num_features, THREADS)
            tables = [
                stack.enter_context(make_ours(optimizer, *sizes, dtype))
                for optimizer, dtype in KINDS
            ]
            insert_all_keys(tables, workload)
            for what in ("train", "look_up"):
                seconds = [*interleaved_medians(tables, what, batches, rounds).values()]
                texts = [f"{1e3 * s:.2f} ({s / seconds[0]:.2f})" for s in seconds]
                rows.append([f"{what}, dim {dim}", *texts])
    return lines(["ms", *map(title_of, KINDS)], rows)


def title_of(kind):
    """Of one of KINDS."""
    return ", ".join(kind)


def main():
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dims", type=int, nargs="+", default=DIMS)
    parser.add_argument("--rounds", type=int, default=48, help="timed steps of each")
    parsed = parser.parse_args()
    tf.compat.v1.disable_eager_execution()
    print("\n".join(steps(parsed.dims, parsed.rounds)))


if __name__ == "__main__":
    main()
