# SPDX-License-Identifier: Apache-2.0
"""Served models beside the same models of plain variables: `python -m benchmarks.serving`.

Requests of 1, 4 and 16 threads of one process, in turn, by our ops and by TensorFlow's (stock_ops);
then requests while a Follower takes increments, and the time from the end of a training step to its
first served answer.
"""

import argparse
import dataclasses
import os
import tempfile
import threading
import time

import numpy as np
import tensorflow as tf

from benchmarks import kept
from benchmarks.tables import lines
from sok_compat.checkpoint import IncrementalSaver, save_tables_in_checkpoints
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.runtime.op_library import ops
from sok_compat.serving import Follower
from sok_compat.serving.saved_model import export_saved_model
from sok_compat.serving.served_model import ServedModel
from sok_compat.serving.versions import Version
from sok_compat.tables import Table

tf1 = tf.compat.v1
LEAST_RATE = 0.9  # of a plain lookup's, at 4 threads
MOST_P99 = 2.0  # times the quiet one, while a tenth of the rows are swapped
THREADS, ROUNDS = (1, 4, 16), 3
NUM_FEATURES, DIM, HIDDEN = 26, 16, 128
_HEADINGS = "threads", "requests/s", "p50, ms", "p99, ms"


@dataclasses.dataclass(frozen=True)
class Figures:
    """Of requests."""

    per_second: float
    p50: float  # seconds
    p99: float

    def cells(self):
        return [f"{self.per_second:,.0f}", f"{1e3 * self.p50:.2f}", f"{1e3 * self.p99:.2f}"]


def measure(request, num_threads, seconds, batches):
    """Figures of request(batch), called by so many threads for so long."""
    end = time.perf_counter() + seconds
    taken = [[] for _ in range(num_threads)]

    def work(number):
        for at in range(number, 1 << 30):
            begin = time.perf_counter()
            if begin >= end:
                return
            request(batches[at % len(batches)])
            taken[number].append(time.perf_counter() - begin)

    threads = [threading.Thread(target=work, args=[number]) for number in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    latencies = np.concatenate([np.array(each) for each in taken])
    p50, p99 = np.quantile(latencies, [0.5, 0.99])
    return Figures(len(latencies) / seconds, p50, p99)


class Models:
    """Builds both models: a lookup alone, or with a network on it."""

    def __init__(self, num_keys, has_network):
        self.num_keys, self.has_network = num_keys, has_network

    def served(self):
        """For a Follower: a table."""
        keys = tf1.placeholder(tf.int64, [None, NUM_FEATURES], name="keys")
        table = Table(None, DIM, "uniform", name="table")
        (rows,) = lookup_group([Lookup(table, tf.reshape(keys, [-1]))], insert=False)
        return {"keys": keys}, {"output": self._output(rows)}

    def plain(self):
        """A variable."""
        keys = tf1.placeholder(tf.int64, [None, NUM_FEATURES], name="keys")
        first = tf1.random_uniform_initializer(-0.05, 0.05)
        rows = tf1.get_variable("rows", [self.num_keys, DIM], initializer=first, use_resource=True)
        return {"keys": keys}, {"output": self._output(tf.gather(rows, tf.reshape(keys, [-1])))}

    def _output(self, rows):
        if not self.has_network:
            return rows
        hidden = tf.reshape(rows, [-1, NUM_FEATURES * DIM])
        for number, width in enumerate([HIDDEN, HIDDEN, 1]):
            weights = tf1.get_variable(f"weights_{number}", [hidden.shape[1], width])
            hidden = tf.nn.relu(hidden @ weights)
        return tf.sigmoid(hidden)


class Trainer:
    """Writes a table of all keys, and increments of a part of them."""

    def __init__(self, models, folder):
        self._path, self._models = f"{folder}/model", models
        self._graph = tf.Graph()
        with self._graph.as_default():
            save_tables_in_checkpoints()
            models.served()
            (table,) = [each for each in tf1.global_variables() if isinstance(each, Table)]
            self._keys, self._rows = tf1.placeholder(tf.int64), tf1.placeholder(tf.float32)
            row_ids = ops.sok_insert_rows(table.table_handle, self._keys, self._rows)
            self._step = tf.raw_ops.ResourceScatterUpdate(
                resource=table.handle, indices=row_ids, updates=self._rows
            )
            self._saver = IncrementalSaver(max_to_keep=2)
            self._session = tf1.Session()
            self._session.run(tf1.global_variables_initializer())
        self._number = 0

    def step(self, keys):
        """Gives the keys rows that hold the number of the step."""
        self._number += 1
        rows = np.full([len(keys), DIM], self._number, np.float32)
        self._session.run(self._step, {self._keys: keys, self._rows: rows})
        return self._number

    def save(self, is_whole=False):
        """Returns the name of the version."""
        with self._graph.as_default():
            save = self._saver.save if is_whole else self._saver.save_increment
            return os.path.basename(save(self._session, self._path, self._number))


def compare(models, run, bar, batches, seconds):
    """Lines of a table: the served model, run(keys), beside plain."""
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs, outputs = models.plain()
        session.run(tf1.global_variables_initializer())
        contenders = (run, lambda keys: session.run(outputs, {inputs["keys"]: keys}))
        rows = []
        for num_threads in THREADS:
            found = [
                [measure(request, num_threads, seconds, batches) for request in contenders]
                for _ in range(1 + ROUNDS)
            ][1:]  # the first warms up
            mine, plain = (max(each, key=lambda x: x.per_second) for each in zip(*found))
            ratios = [mine.per_second / plain.per_second for mine, plain in found]
            ratio = f"{np.median(ratios):.2f}" + (
                f" (bar {bar})" if bar and num_threads == 4 else ""
            )
            rows.append([num_threads, *mine.cells(), *plain.cells(), ratio])
    headings = [*_HEADINGS, *(f"plain: {each}" for each in _HEADINGS[1:])]
    return lines([*headings, "times as many requests"], rows)


def compare_stock(models, checkpoint, batches, seconds):
    """Lines of a table: the model of stock ops beside plain."""
    with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default(), tf1.Session() as session:
        path = export_saved_model(
            f"{folder}/stock", models.served, checkpoint, stock_ops=True, missing_keys="zeros"
        )
        signature = tf1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        output = signature.outputs["output"].name
        feed = signature.inputs["keys"].name
        return compare(
            models, lambda keys: session.run(output, {feed: keys}), None, batches, seconds
        )


def compare_swaps(model, increments, batches, seconds):
    """Lines of a table: quiet, and while increments of a tenth of the rows are swapped in."""

    def request(keys):
        model.run({"keys": keys}, "serving_default")

    rows = []
    for num_threads in THREADS:
        quiet = measure(request, num_threads, seconds, batches)
        ends, pauses = threading.Event(), []

        def swap(ends=ends, pauses=pauses):
            while not ends.wait(0.5):
                version = increments[len(pauses) % len(increments)]
                version = dataclasses.replace(version, base_id=model.contents.id)
                changes = model.read(version)
                begin = time.perf_counter()
                model.swap(changes)
                pauses.append(time.perf_counter() - begin)

        swapping = threading.Thread(target=swap)
        swapping.start()
        beside = measure(request, num_threads, seconds, batches)
        ends.set()
        swapping.join()
        ratio = f"{beside.p99 / quiet.p99:.2f} (at most {MOST_P99:.0f})"
        pause = f"{1e3 * np.median(pauses):.1f}"
        rows.append([num_threads, *quiet.cells(), *beside.cells(), len(pauses), pause, ratio])
    headings = [*_HEADINGS, *(f"swapping: {each}" for each in _HEADINGS[1:])]
    return lines([*headings, "swaps", "of a swap, ms", "p99, times the quiet one"], rows)


def lags(trainer, models, folder, num_keys):
    """Seconds from the end of a step that changes so many keys to its first served answer, and how
    long the save takes of that; medians."""
    saves, answers = [], []
    with Follower(models.served, folder, poll_seconds=0.01) as follower:
        follower.wait(timeout=60)
        for _ in range(10):
            number = trainer.step(np.arange(num_keys))
            begin = time.perf_counter()
            trainer.save()
            saves.append(time.perf_counter() - begin)
            while follower.run({"keys": [[0] * NUM_FEATURES]})["output"][0, 0] != number:
                time.sleep(0.001)
            answers.append(time.perf_counter() - begin)
    return np.median(saves), np.median(answers)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=256, help="samples of a request")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    arguments = parser.parse_args()
    numbers = np.random.default_rng(1)
    shape = arguments.batch, NUM_FEATURES
    batches = [numbers.integers(0, arguments.keys, shape) for _ in range(64)]
    print(
        f"{kept.processor()}, {os.cpu_count()} cores; TensorFlow {tf.__version__}. Requests of "
        f"{arguments.batch} x {NUM_FEATURES} of {arguments.keys:,} keys, dim {DIM}.\n"
    )
    for has_network in (False, True):
        models = Models(arguments.keys, has_network)
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(models, folder)
            trainer.step(np.arange(arguments.keys))
            whole = trainer.save(is_whole=True)
            model = ServedModel(models.served, "first_values", None)
            model.restore(Version.at(f"{folder}/{whole}"))
            print(f"## {'Whole models' if has_network else 'Lookups'}\n")
            bar = None if has_network else LEAST_RATE
            compared = compare(
                models,
                lambda keys, model=model: model.run({"keys": keys}, "serving_default"),
                bar,
                batches,
                arguments.seconds,
            )
            print(*compared, "", sep="\n", flush=True)
            print("### By TensorFlow's ops\n")
            stock = compare_stock(models, f"{folder}/{whole}", batches, arguments.seconds)
            print(*stock, "", sep="\n", flush=True)
            if has_network:
                continue
            tenth = arguments.keys // 10
            increments = []
            for _ in range(4):
                trainer.step(numbers.permutation(arguments.keys)[:tenth])
                increments.append(Version.at(f"{folder}/{trainer.save()}"))
            print(f"## While {tenth:,} rows are swapped, again and again\n")
            swaps = compare_swaps(model, increments, batches, 3 * arguments.seconds)
            print(*swaps, "", sep="\n", flush=True)
            model.close()
            print("## From the end of a step to its first served answer\n")
            for num_keys in (100, 10_000, tenth):
                saving, answered = lags(trainer, models, folder, num_keys)
                print(f"- {num_keys:,} rows: {answered:.3f} s, of which the save {saving:.3f} s")
            print(flush=True)


if __name__ == "__main__":
    main()
