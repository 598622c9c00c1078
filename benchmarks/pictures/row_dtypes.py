# SPDX-License-Identifier: Apache-2.0
"""Memory of a table by the dtype of its rows and its optimizer: `python -m
benchmarks.pictures.row_dtypes`.

What a table of 5 million rows of 32 numbers adds to the resident memory of a process of its own,
with its index of keys.
"""

import gc
import subprocess
import sys

import tensorflow as tf

from benchmarks.contenders import make_ours
from benchmarks.inserts import batches_of_new_keys, resident_bytes
from benchmarks.pictures import measured
from benchmarks.row_dtypes import KINDS, THREADS, title_of
from benchmarks.workload import Workload

NUM_KEYS, DIM = 5_000_000, 32
_COMMAND = "python -m benchmarks.pictures.row_dtypes"


def bytes_of(optimizer, dtype):
    """Of the memory that steps take when all keys are new; a first table takes what steps need."""
    workload = Workload()
    for count in (NUM_KEYS // 25, NUM_KEYS):
        gc.collect()
        before = resident_bytes()
        with make_ours(optimizer, DIM, count, workload.num_features, THREADS, dtype) as table:
            for keys in batches_of_new_keys(0, count, workload):
                table.run("train", keys)
            size = resident_bytes() - before
    return size


def main():
    tf.compat.v1.disable_eager_execution()
    if len(sys.argv) > 1:
        return print(bytes_of(*sys.argv[1:]))
    command = [sys.executable, "-m", "benchmarks.pictures.row_dtypes"]
    sizes = {}
    for kind in KINDS:
        done = subprocess.run([*command, *kind], check=True, stdout=subprocess.PIPE, text=True)
        sizes[title_of(kind)] = round(int(done.stdout) / NUM_KEYS, 1)
    measured.write("row_dtypes", _COMMAND, {"dim": DIM, "bytes_a_key": sizes})


if __name__ == "__main__":
    main()
