# SPDX-License-Identifier: Apache-2.0
"""A trainer whose versions hold their number in all rows, and requests that check what they see.

As a program, `train FOLDER` makes one version after the other, `serve FOLDER` serves them, until it
is killed.
"""

import contextlib
import sys
import time

import numpy as np
import tensorflow as tf

import sok_compat
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.runtime.op_library import ops
from sok_compat.serving import Follower
from sok_compat.tables import Table
from sok_compat.tables.key_history import KeyHistory

tf1 = tf.compat.v1
DIM, NUM_KEYS, NUM_DENSE = 4, 300, 50
TABLES = "left", "right"


class FollowedModel:
    """Two tables and an ordinary variable, in the default graph.

    Version n has the keys 0 to NUM_KEYS - 1 and `key_of(n)`, all with the row [n, n, ...].
    """

    def __init__(self):
        history = KeyHistory(evicts=True)
        self.tables = [Table(None, DIM, "zeros", name=name, history=history) for name in TABLES]
        self.dense = tf1.get_variable("dense", [NUM_DENSE], initializer=tf1.zeros_initializer())
        self.keys = tf1.placeholder(tf.int64, [None], name="keys")
        self.rows = lookup_group([Lookup(each, self.keys) for each in self.tables], insert=False)

    def signature(self):
        """(inputs, outputs)."""
        outputs = {name: tf.identity(rows) for name, rows in zip(TABLES, self.rows)}
        return {"keys": self.keys}, {**outputs, "dense": tf.identity(self.dense)}


class Trainer(FollowedModel):
    """With ops that make versions, and a saver."""

    def __init__(self):
        sok_compat.checkpoint.save_tables_in_checkpoints()
        super().__init__()
        self.number = tf1.placeholder(tf.float32, [])
        rows = tf.fill([tf.size(self.keys), DIM], self.number)
        handles = [each.table_handle for each in self.tables]
        self.insert = [ops.sok_insert_rows(each, self.keys, rows) for each in handles]
        self.fill = [each.assign(self.number + 0.0 * each.value()) for each in self.tables]
        self.fill.append(self.dense.assign(tf.fill([NUM_DENSE], self.number)))
        self.clear = [
            tf.raw_ops.ResourceScatterUpdate(
                resource=each.handle, indices=row_ids, updates=tf.zeros_like(rows)
            )
            for each, row_ids in zip(self.tables, self.insert)
        ]
        step = tf.constant(0, tf.int64)
        self.evict = [ops.sok_evict_keys(each, step, l2_threshold=1e-9) for each in handles]
        self.saver = sok_compat.IncrementalSaver(max_to_keep=3)
        self.init = tf1.global_variables_initializer()

    def make(self, session, number):
        """Trains version `number`, after number - 1 or as the first one."""
        session.run(
            self.insert, {self.keys: [*range(NUM_KEYS), key_of(number)], self.number: number}
        )
        session.run(self.fill, {self.number: number})
        session.run(self.clear, {self.keys: [key_of(number - 1)], self.number: 0})
        session.run(self.evict)

    def save(self, session, folder, number, is_whole=False):
        """Saves it; returns the path."""
        save = self.saver.save if is_whole else self.saver.save_increment
        return save(session, f"{folder}/model", number)

    def write(self, session, folder, numbers, wholes=()):
        """Trains and saves versions; those in `wholes`, and a first one, are whole."""
        for number in numbers:
            self.make(session, number)
            self.save(session, folder, number, is_whole=number in wholes)


@contextlib.contextmanager
def training():
    """(Trainer, session), in a graph of their own, initialized."""
    with tf.Graph().as_default():
        trainer = Trainer()
        with tf1.Session() as session:
            session.run(trainer.init)
            yield trainer, session


def key_of(number):
    """A key that version `number` alone has."""
    return 1_000_000 + number


def build():
    """For a Follower."""
    return FollowedModel().signature()


def number_seen(follower, random):
    """The version that a request has seen; fails if it has seen two."""
    keys = random.integers(0, NUM_KEYS, 20)
    outputs = follower.run({"keys": keys})
    numbers = {*outputs["dense"].ravel().tolist()}
    for name in TABLES:
        numbers |= {*outputs[name].ravel().tolist()}
    assert len(numbers) == 1, f"a request has seen the versions {sorted(numbers)}"
    return int(numbers.pop())


def keys_seen(follower, numbers):
    """Those of the numbers whose keys the served version has."""
    rows = follower.run({"keys": [key_of(number) for number in numbers]})
    found = [{n for n, row in zip(numbers, rows[name]) if np.any(row != 0)} for name in TABLES]
    assert found[0] == found[1]
    return found[0]


def train_for_ever(folder):
    """Goes on from the folder's last version."""
    with training() as (trainer, session):
        latest, number = tf.train.latest_checkpoint(folder), 0
        if latest is not None:
            trainer.saver.restore(session, latest)
            number = int(latest.rpartition("-")[2])
        while True:
            number += 1
            trainer.make(session, number)
            trainer.save(session, folder, number, is_whole=number % 10 == 0)
            print(number, flush=True)


def serve_for_ever(folder):
    """Checks what it serves."""
    with Follower(build, folder, poll_seconds=0.01) as follower:
        follower.wait()
        while True:
            print(number_seen(follower, np.random.default_rng(1)), flush=True)
            time.sleep(0.01)


if __name__ == "__main__":
    {"train": train_for_ever, "serve": serve_for_ever}[sys.argv[1]](sys.argv[2])
