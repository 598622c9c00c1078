# SPDX-License-Identifier: Apache-2.0
"""Dumps into the folder that is given, by processes that are killed at random moments.

Says "killed" after each, and waits for a line. They are forked once TensorFlow is imported, which
takes longest.
"""

import functools
import itertools
import os
import random
import signal
import sys
from pathlib import Path

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
MOST_DUMPS = 40  # of a process


def last_whole(folder):
    """The number of the last dump that a process had ended before it was killed."""
    return int(Path(folder, "last").read_bytes())


def dump_until_killed(folder, first, ready):
    """As NumberedTable in the tests: numbers from the first one; and two tables in one dump."""
    table = Table(3000, DIM, name="EmbeddingVariable")
    two = [Table(3000, DIM, name=name) for name in NAMES]
    dumped = [DumpedTable(each, each.table_name, "int64", "headed") for each in two]
    last = os.open(f"{folder}/last", os.O_WRONLY | os.O_CREAT)
    for number in range(first, first + MOST_DUMPS):
        for each in (table, *two):
            set_rows(each, np.full([2000 + number, DIM], number, np.float32))
        dump_to_files(table, folder)
        dump_tables(tf.constant(f"{folder}/two"), dumped)
        os.pwrite(last, b"%4d" % number, 0)
        os.write(ready, b".")
    signal.pause()


if __name__ == "__main__":
    assert sok_compat.__version__ and tf.__version__  # no thread is started: it may hold a lock
    numbers = random.Random(7)
    for first in itertools.count(step=MOST_DUMPS):
        work = functools.partial(dump_until_killed, sys.argv[1], first)
        run_and_kill(work, numbers, MOST_SECONDS)
        print("killed", flush=True)
        sys.stdin.readline()
