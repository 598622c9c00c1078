# SPDX-License-Identifier: Apache-2.0
"""Training steps while another thread saves: `python -m benchmarks.steps_beside_saves`.

A table with a slot is trained without pause. Whole checkpoints, and increments of what has changed
since, are saved beside; the rate of steps during a save is compared with the one before it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import tensorflow as tf

import sok_compat
from benchmarks.inserts import resident_bytes
from benchmarks.tables import lines
from sok_compat.checkpoint import IncrementalSaver, save_tables_in_checkpoints
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.runtime.settings import SAVE_MEMORY
from sok_compat.tables import Table

tf1 = tf.compat.v1
LEAST_RATE = 0.8  # of the steps before the save
DIM, BATCH, HIDDEN = 64, 4096, 256
_AT_ONCE = 100_000  # keys that get rows


class Trainer:
    """Trains a table, all of whose keys have rows, and a network on it."""

    def __init__(self, num_keys):
        save_tables_in_checkpoints()
        table = Table(None, DIM, "uniform", name="table")
        numbers = np.random.default_rng(1).zipf(1.1, (64, BATCH)) % num_keys
        batches = tf.constant(numbers, tf.int64)
        at = tf.random.uniform([], 0, len(numbers), tf.int64)
        keys = tf1.placeholder_with_default(batches[at], [None])
        (rows,) = lookup_group([Lookup(table, keys)], insert=True)
        hidden = tf.nn.relu(rows @ tf1.get_variable("weights", [DIM, HIDDEN]))
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(hidden, 1) - 1))
        with sok_compat.OptimizerScope([table]):
            self._step = tf1.train.AdagradOptimizer(0.01).minimize(loss)
        self._saver = IncrementalSaver(max_to_keep=1)
        self._session = tf1.Session()
        self._session.run(tf1.global_variables_initializer())
        for first in range(0, num_keys, _AT_ONCE):
            self._session.run(rows, {keys: np.arange(first, min(first + _AT_ONCE, num_keys))})
        self.ends, self._stop = [], threading.Event()  # when steps have ended

    def train(self):
        while not self._stop.is_set():
            self._session.run(self._step)
            self.ends.append(time.perf_counter())

    def stop(self):
        self._stop.set()

    def save(self, path, number, is_whole):
        """(begin, end) of a save."""
        begin = time.perf_counter()
        save = self._saver.save if is_whole else self._saver.save_increment
        with self._session.graph.as_default():
            save(self._session, path, number)
        return begin, time.perf_counter()


def rate(ends, begin, end):
    """Steps that have ended per second."""
    return np.sum((np.array(ends) >= begin) & (np.array(ends) < end)) / (end - begin)


def measure(num_keys, rounds, seconds):
    """[(what, seconds of a save, steps/s before, beside, the longest pause, MiB beyond)]."""
    rows = []
    trainer = Trainer(num_keys)
    thread = threading.Thread(target=trainer.train)
    with tempfile.TemporaryDirectory() as folder:
        thread.start()
        trainer.save(f"{folder}/model", 0, is_whole=True)
        for what in ("whole", "increment"):
            found = []
            for number in range(rounds):
                time.sleep(seconds)
                before = time.perf_counter()
                resident = resident_bytes()
                with open("/proc/self/clear_refs", "w") as file:
                    file.write("5")
                begin, end = trainer.save(
                    f"{folder}/model", 1 + number + rounds * (what != "whole"), what == "whole"
                )
                with open("/proc/self/status") as status:
                    fields = dict(line.split(":", 1) for line in status)
                beyond = (int(fields["VmHWM"].split()[0]) << 10) - resident
                quiet = rate(trainer.ends, before - seconds / 2, before)
                pauses = np.diff([t for t in trainer.ends if begin - 1 < t < end + 1])
                beside = rate(trainer.ends, begin, end)
                found.append(
                    [end - begin, quiet, beside, beside / quiet, pauses.max(), beyond / 2**20]
                )
            rows.append((what, np.median(found, axis=0)))
        trainer.stop()
        thread.join()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--memory", type=int, nargs="+", default=[0, 128, 1280], help="MiB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4, help="between two saves")
    arguments = parser.parse_args()
    if SAVE_MEMORY.name not in os.environ:
        for memory in arguments.memory:
            environment = {**os.environ, SAVE_MEMORY.name: str(memory)}
            command = [sys.executable, "-m", "benchmarks.steps_beside_saves", *sys.argv[1:]]
            subprocess.run(command, env=environment, check=True)
        return
    tf1.disable_eager_execution()
    rows = [
        [SAVE_MEMORY.value(), what, f"{save:.2f}", f"{quiet:.0f}", f"{beside:.0f}",
         f"{ratio:.2f} (bar {LEAST_RATE})", f"{1e3 * pause:.0f}", f"{beyond:.0f}"]
        for what, (save, quiet, beside, ratio, pause, beyond) in
        measure(arguments.keys, arguments.rounds, arguments.seconds)
    ]  # fmt: skip
    headings = [SAVE_MEMORY.name, "save", "s", "steps/s before", "beside", "of those before",
                "longest pause, ms", "MiB beyond"]  # fmt: skip
    print(
        f"{arguments.keys * DIM * 8 / 1e9:.2f} GB\n",
        *lines(headings, rows),
        "",
        sep="\n",
        flush=True,
    )


if __name__ == "__main__":
    main()
