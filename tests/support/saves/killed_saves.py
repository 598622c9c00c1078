# SPDX-License-Identifier: Apache-2.0
"""Saves checkpoints into the folder that is given, by processes that are killed at random moments.

Waits for a line before each, and says "killed" after it.
"""

import functools
import os
import random
import sys

import numpy as np
import tensorflow as tf

import sok_compat
from sok_compat.checkpoint import save_tables_in_checkpoints, set_rows
from sok_compat.tables.table import Table
from tests.support.processes.killed_children import run_and_kill

MOST_SECONDS = 0.1  # from its first checkpoint to its end
NUM_KEYS, DIM = 3000, 8
tf1 = tf.compat.v1


class NumberedTable:
    """A table and an ordinary variable that hold a number, in the default graph."""

    def __init__(self):
        save_tables_in_checkpoints()
        self.table = Table(2 * NUM_KEYS, DIM, name="numbered")
        self.dense = tf1.get_variable("dense", [NUM_KEYS])
        self.number = tf1.placeholder(tf.float32, [])
        self.num_keys = tf1.placeholder(tf.int32, [])
        rows = tf.fill([self.num_keys, DIM], self.number)
        self.set = [
            set_rows(self.table, rows),
            self.dense.assign(tf.fill([NUM_KEYS], self.number)).op,
        ]
        self.saver = tf1.train.Saver(max_to_keep=2)

    def fill(self, session, number):
        session.run(self.set, {self.number: number, self.num_keys: NUM_KEYS + number})


def saved_number(path):
    """That of a checkpoint, all of which is read."""
    reader = tf.train.load_checkpoint(path)
    tensors = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    number = int(tensors["dense"][0])
    assert np.all(tensors["dense"] == number)
    assert sorted(tensors["numbered/keys"]) == list(range(NUM_KEYS + number))
    assert tensors["numbered/rows"].shape == (NUM_KEYS + number, DIM)
    assert np.all(tensors["numbered/rows"] == number)
    return number


def save_for_ever(folder, ready):
    """Each second checkpoint is in the place of the one before."""
    with tf.Graph().as_default():
        numbered = NumberedTable()
        numbers = iter(range(1000))
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            for number in numbers:
                numbered.fill(session, number)
                numbered.saver.save(session, f"{folder}/model", global_step=number // 2)
                os.write(ready, b".")


if __name__ == "__main__":
    assert sok_compat.__version__  # no thread is started: it may hold a lock
    numbers = random.Random(7)
    while sys.stdin.readline():
        run_and_kill(functools.partial(save_for_ever, sys.argv[1]), numbers, MOST_SECONDS)
        print("killed", flush=True)
