# SPDX-License-Identifier: Apache-2.0
"""Dumps into the folder that is given, by processes that are killed at random moments.

Says "killed" after each, and waits for a line. They are forked once TensorFlow is imported, which
takes longest.
"""

import functools
import os
import random
import sys

import numpy as np
import tensorflow as tf

import sok_compat
from sok_compat.checkpoint import dump_to_files, set_rows
from sok_compat.checkpoint.streams.dumps import DumpedTable, dump_tables
from sok_compat.tables.table import Table
from tests.support.processes.killed_children import run_and_kill
from tests.support.saves.saved_table import DIM

NAMES = ("a", "b")
MOST_SECONDS = 0.1  # from its first dump to its end


def dump_for_ever(folder, ready):
    """As NumberedTable in the tests: numbers 0 and 1 in turns; and two tables in one dump."""
    table = Table(3000, DIM, name="EmbeddingVariable")
    two = [Table(3000, DIM, name=name) for name in NAMES]
    dumped = [DumpedTable(each, each.table_name, "int64", "headed") for each in two]
    while True:
        for number in (0, 1):
            for each in (table, *two):
                set_rows(each, np.full([2000 + number, DIM], number, np.float32))
            dump_to_files(table, folder)
            dump_tables(tf.constant(f"{folder}/two"), dumped)
            os.write(ready, b".")


if __name__ == "__main__":
    assert sok_compat.__version__ and tf.__version__  # no thread is started: it may hold a lock
    numbers = random.Random(7)
    while True:
        run_and_kill(functools.partial(dump_for_ever, sys.argv[1]), numbers, MOST_SECONDS)
        print("killed", flush=True)
        sys.stdin.readline()
