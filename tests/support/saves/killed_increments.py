# SPDX-License-Identifier: Apache-2.0
"""Saves increments into the folder that is given, by processes that are killed at random moments.

Waits for a line before each, and says "killed" after it.
"""

import functools
import os
import random
import sys

import sok_compat
from tests.support.processes.killed_children import run_and_kill
from tests.support.saves.killed_saves import MOST_SECONDS, NumberedTable, tf, tf1

NUM_INCREMENTS = 4  # between two whole checkpoints


class NumberedSeries(NumberedTable):
    """A NumberedTable with an IncrementalSaver; what is saved with a number holds that number."""

    def __init__(self):
        super().__init__()
        self.series = sok_compat.IncrementalSaver(max_to_keep=2)
        self.contents = [self.table.export()[1], self.dense]

    def save(self, session, folder, number):
        self.fill(session, number)
        path = f"{folder}/model"
        if number % (1 + NUM_INCREMENTS) == 0:
            self.series.save(session, path, number, write_meta_graph=False)
        else:
            self.series.save_increment(session, path, number)

    def restored(self, session, path):
        """All numbers in what is restored, a set."""
        self.series.restore(session, path)
        rows, dense = session.run(self.contents)
        return {*rows.ravel().tolist(), *dense.tolist()}


def save_for_ever(folder, ready):
    with tf.Graph().as_default():
        numbered = NumberedSeries()
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            for number in range(1000):
                numbered.save(session, folder, number)
                os.write(ready, b".")


if __name__ == "__main__":
    assert sok_compat.__version__  # no thread is started: it may hold a lock
    numbers = random.Random(8)
    while sys.stdin.readline():
        run_and_kill(functools.partial(save_for_ever, sys.argv[1]), numbers, 3 * MOST_SECONDS)
        print("killed", flush=True)
