# SPDX-License-Identifier: Apache-2.0
"""Steps on a table in files, a part of it in memory. `python -m benchmarks.larger_than_memory DISK`

Prints the disk's random reads, and for each exponent of Zipf: steps a second beside the same table
all in memory; the share of rows found in memory beside that of an ideal cache of rows, which holds
the most frequent keys; reads and writes of a step; and a step's time over its bar, which is the
step in memory and the time that the disk needs for the pages that were read.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

import sok_compat
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.summaries import stats
from sok_compat.tables.table import Table

tf1 = tf.compat.v1
_PAGE = 4096
_DEPTH = 32
_INSERTED_AT_ONCE = 100_000


def reads_a_second(folder, file_bytes=1 << 30, count=40_000):
    """Random reads of a page, `_DEPTH` at a time, of a new file that is not in memory."""
    with tempfile.TemporaryFile(dir=folder) as file:
        block = np.random.default_rng(0).bytes(1 << 24)
        for _ in range(file_bytes // len(block)):
            file.write(block)
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        pages = np.random.default_rng(1).permutation(file_bytes // _PAGE)[:count]

        def read(part):
            for page in part.tolist():
                os.pread(file.fileno(), _PAGE, page * _PAGE)

        with concurrent.futures.ThreadPoolExecutor(_DEPTH) as pool:
            start = time.perf_counter()
            list(pool.map(read, np.array_split(pages, _DEPTH)))
            return count / (time.perf_counter() - start)


@dataclasses.dataclass(frozen=True)
class Keys:
    """Batches of keys 0, 1, 2, ... drawn with probabilities ~ (key + 1)^-exponent."""

    num_keys: int
    exponent: float
    batch_size: int

    def chances(self):
        """[num_keys], descending."""
        weights = np.arange(1, self.num_keys + 1, dtype=np.float64) ** -self.exponent
        return weights / weights.sum()

    def in_order_of_appearance(self):
        """All keys, in a random order of their first draws."""
        times = np.random.default_rng(2).exponential(size=self.num_keys) / self.chances()
        return np.argsort(times)

    def batches(self, count, seed):
        """Yields int64 [batch_size]."""
        sums, random = np.cumsum(self.chances()), np.random.default_rng(seed)
        for _ in range(count):
            drawn = np.searchsorted(sums, random.random(self.batch_size))
            yield np.minimum(drawn, self.num_keys - 1)

    def share_of_most_frequent(self, count):
        """The share of distinct keys of batches that are among the `count` most frequent ones."""
        found = [np.unique(batch) for batch in self.batches(8, seed=5)]
        return np.mean([(keys < count).mean() for keys in found])


class Model:
    """Lookups, and training by Adagrad."""

    def __init__(self, keys, dim, **files):
        with tf.Graph().as_default() as graph:
            table = Table(None, dim, "uniform", name="table", **files)
            self._keys = tf1.placeholder(tf.int64, [None])
            (rows,) = lookup_group([Lookup(table, self._keys)], True)
            (gradient,) = tf.gradients(tf.reduce_sum(rows), [table])
            optimizer = tf1.train.AdagradOptimizer(0.01)
            with sok_compat.OptimizerScope([table]):
                train = optimizer.apply_gradients([(gradient, table)])
            (read,) = lookup_group([Lookup(table, self._keys)], False)
            self._ops = {"training": train, "lookup": tf.reduce_sum(read)}
            self._session = tf1.Session(graph=graph)
            self._session.run(tf1.global_variables_initializer())
            insert = rows.op
        for part in np.split(keys, range(_INSERTED_AT_ONCE, len(keys), _INSERTED_AT_ONCE)):
            self._session.run(insert, {self._keys: part})

    def seconds(self, what, batches):
        """Of each step."""
        taken = []
        for batch in batches:
            start = time.perf_counter()
            self._session.run(self._ops[what], {self._keys: batch})
            taken.append(time.perf_counter() - start)
        return taken

    def close(self):
        """Frees the table."""
        self._session.close()


def _written_bytes():
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


def _figures_of_files():
    (found,) = [each for each in stats()["tables"].values() if each["file_bytes"]]
    return found


def _resident_megabytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = dict(line.split(":", 1) for line in lines)["VmRSS"].split()[0]
    return int(kilobytes) / 1e3


@contextlib.contextmanager
def _cgroup(folder):
    """Puts this process into an existing memory cgroup, and back."""
    if folder is None:
        print("No --cgroup: the limit is that of the table alone.\n")
        yield
        return
    Path(folder, "cgroup.procs").write_text(str(os.getpid()))
    print(f"In the memory cgroup {folder}.\n")
    yield


def compare(keys, arguments, rate):
    """Prints a line for each kind of step."""
    row_bytes = 2 * 4 * arguments.dim  # with Adagrad's slot
    memory_bytes = int(keys.num_keys * row_bytes * arguments.share)
    ideal = keys.share_of_most_frequent(int(keys.num_keys * arguments.share))
    files = {"storage_path": arguments.disk, "memory_bytes": memory_bytes}
    order = keys.in_order_of_appearance()
    in_memory = {}
    for where in ({}, files):
        model = Model(order, arguments.dim, **where)
        for seed, what in enumerate(("training", "lookup"), start=10):
            model.seconds(what, keys.batches(arguments.warm_up, seed=3))
            before, written = (_figures_of_files(), _written_bytes()) if where else ({}, 0)
            seconds = model.seconds(what, keys.batches(arguments.steps, seed))
            median = statistics.median(seconds)
            if not where:
                in_memory[what] = median
                continue
            after = _figures_of_files()
            grown = {name: after[name] - before[name] for name in after}
            hits = 1 - grown["rows_missed"] / grown["rows_requested"]
            pages = grown["bytes_read"] / _PAGE / arguments.steps
            mean = sum(seconds) / len(seconds)
            bar = in_memory[what] + pages / rate
            written = (_written_bytes() - written) / arguments.steps
            print(
                f"| {keys.exponent} | {what} | {1 / in_memory[what]:.1f} | {1 / mean:.1f} | "
                f"{hits:.3f} | {ideal:.3f} | {pages:,.0f} | {written / _PAGE:,.0f} | "
                f"{mean / bar:.2f} | {after['resident_bytes'] / 1e6:,.0f} of "
                f"{after['bytes'] / 1e6:,.0f} MB |",
                flush=True,
            )
        model.close()
        del model


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("disk", help="a folder on it")
    parser.add_argument("--num-keys", type=int, default=4_000_000)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=106_496)
    parser.add_argument("--share", type=float, default=0.25, help="of rows and slots in memory")
    parser.add_argument("--exponents", type=float, nargs="+", default=[0.8, 1.05, 1.2])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warm-up", type=int, default=40, help="steps")
    parser.add_argument("--cgroup", help="the folder of a memory cgroup to run in")
    arguments = parser.parse_args()
    with _cgroup(arguments.cgroup):
        rate = reads_a_second(arguments.disk)
        print(f"The disk reads {rate:,.0f} random pages of {_PAGE} bytes/s, {_DEPTH} at once.\n")
        print(
            "| Zipf | steps | in memory, a second | in files, a second | rows found in memory | by "
            "an ideal cache of rows | pages read a step | pages written a step | step over its bar "
            "| in memory |\n" + "|---" * 10 + "|"
        )
        for exponent in arguments.exponents:
            compare(Keys(arguments.num_keys, exponent, arguments.batch_size), arguments, rate)
        print(f"\nThe process has {_resident_megabytes():,.0f} MB of memory.")


if __name__ == "__main__":
    main()
