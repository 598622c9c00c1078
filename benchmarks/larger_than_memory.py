# SPDX-License-Identifier: Apache-2.0
"""Steps on a table in files, a part of it in memory. `python -m benchmarks.larger_than_memory DISK`

Prints the disk's random reads, and for each exponent of Zipf: steps a second beside the same table
all in memory; the share of keys found in memory beside that of an ideal cache of rows, which holds
the most frequent keys; reads and writes of a step; and a step's time over its bar: the step in
memory and the time that the disk needs for the pages that were read.
"""

import argparse
import contextlib
import dataclasses
import itertools
import mmap
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

import sok_compat
from benchmarks.pictures import measured
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.runtime.op_library import ops
from sok_compat.summaries import stats
from sok_compat.tables.table import Table

tf1 = tf.compat.v1
_PAGE = 4096
_DEPTH = 32
_INSERTED_AT_ONCE = 100_000


def reads_a_second(folder, file_bytes=1 << 30, seconds=2.0):
    """Random reads of a page of a file, past the system's cache, by `_DEPTH` processes."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        block = np.random.default_rng(0).bytes(1 << 24)
        for _ in range(file_bytes // len(block)):
            file.write(block)
        os.fsync(file.fileno())
        counts, written = os.pipe()
        begin = time.monotonic() + 0.5
        readers = []
        for seed in range(_DEPTH):
            readers.append(os.fork())
            if readers[-1] == 0:
                count = _read_until(file.name, file_bytes // _PAGE, seed, begin, begin + seconds)
                os.write(written, count.to_bytes(8, "little"))
                os._exit(0)
        for reader in readers:
            os.waitpid(reader, 0)
        found = np.frombuffer(os.read(counts, 8 * _DEPTH), np.int64)
        return found.sum() / seconds


def _read_until(path, num_pages, seed, begin, end):
    """Returns the number of reads."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    page = mmap.mmap(-1, _PAGE)  # aligned
    places = itertools.cycle(np.random.default_rng(seed).permutation(num_pages).tolist())
    time.sleep(max(0.0, begin - time.monotonic()))
    for count in itertools.count():
        if time.monotonic() >= end:
            return count
        os.preadv(file, [page], next(places) * _PAGE)


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

    def missed_by_ideal_cache(self, count, batches):
        """Distinct keys of a batch that are not among the `count` most frequent ones."""
        return np.mean([(np.unique(batch) >= count).sum() for batch in batches])


class Model:
    """Lookups, and training by Adagrad, of batches in turns."""

    def __init__(self, keys, dim, batches, **files):
        with tf.Graph().as_default() as graph:
            table = Table(None, dim, "uniform", name="table", **files)
            new_keys = tf1.placeholder(tf.int64, [None])
            (inserted,) = lookup_group([Lookup(table, new_keys)], True)
            optimizer = tf1.train.AdagradOptimizer(0.01)  # one, for one slot
            self._ops = {}
            for what in ("training", "lookup"):
                dataset = tf.data.Dataset.from_tensor_slices(batches).repeat().prefetch(2)
                batch = tf1.data.make_one_shot_iterator(dataset).get_next()
                (rows,) = lookup_group([Lookup(table, batch)], what != "lookup")
                self._ops[what] = tf.reduce_sum(rows)
                if what != "lookup":
                    (gradient,) = tf.gradients(self._ops[what], [table])
                    with sok_compat.OptimizerScope([table]):
                        self._ops[what] = optimizer.apply_gradients([(gradient, table)])
            self._tiers = ops.sok_lookup_tier(table.table_handle, new_keys)
            self._keys = new_keys
            self._session = tf1.Session(graph=graph)
            self._session.run(tf1.global_variables_initializer())
            with self._session.as_default():
                tf1.train.start_queue_runners()
        for part in np.split(keys, range(_INSERTED_AT_ONCE, len(keys), _INSERTED_AT_ONCE)):
            self._session.run(inserted.op, {new_keys: part})

    def seconds(self, what, count):
        """Of a step."""
        start = time.perf_counter()
        for _ in range(count):
            self._session.run(self._ops[what])
        return (time.perf_counter() - start) / count

    def share_in_memory(self, batches):
        """The share of keys whose row and slot are in memory."""
        return np.mean([self._session.run(self._tiers, {self._keys: b}) == 0 for b in batches])

    def close(self):
        """Frees the table."""
        self._session.close()


def _counters(disk):
    """Of this process's table in files, this process, and the disk."""
    (figures,) = [each for each in stats()["tables"].values() if each["file_bytes"]]
    io = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    device = os.stat(disk).st_dev
    path = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat"
    sectors = Path(path).read_text().split() if os.path.exists(path) else [0] * 7
    return {
        "read": figures["bytes_read"],
        "written": figures["bytes_written"],
        "dirtied": int(io["write_bytes"]),
        "read by the disk": 512 * int(sectors[2]),
        "written by the disk": 512 * int(sectors[6]),
        "resident": figures["resident_bytes"],
        "total": figures["bytes"],
    }


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


def compare(keys, shares, arguments, rate):
    """Prints a line for each kind of step, and returns {kind: [[share, steps a second]]}."""
    row_bytes = 2 * 4 * arguments.dim  # with Adagrad's slot
    order = keys.in_order_of_appearance()
    batches = np.array(list(keys.batches(arguments.warm_up, seed=3)))
    model = Model(order, arguments.dim, batches)
    in_memory = {}
    for what in ("training", "lookup"):
        model.seconds(what, 3)
        in_memory[what] = model.seconds(what, arguments.steps)
    model.close()
    points = {what: [] for what in in_memory}
    for share in shares:
        memory_bytes = int(keys.num_keys * row_bytes * share)
        files = {"storage_path": arguments.disk, "memory_bytes": memory_bytes}
        model = Model(order, arguments.dim, batches, **files)
        model.seconds("training", arguments.warm_up)
        for what in ("training", "lookup"):
            model.seconds(what, 2 if what == "training" else arguments.warm_up // 3)
            before = _counters(arguments.disk)
            seconds = model.seconds(what, arguments.steps)
            after = _counters(arguments.disk)
            pages = {k: (after[k] - before[k]) / _PAGE / arguments.steps for k in after}
            points[what].append([share, round(1 / seconds, 2)])
            found = ideal = ""
            if what == "training":
                found = f"{model.share_in_memory(keys.batches(4, seed=4)):.3f}"
                ideal = f"{keys.chances()[: int(keys.num_keys * share)].sum():.3f}"
            with_writes = pages["read"] + pages["written"]
            print(
                f"| {keys.exponent} | {share} | {what} | {1 / in_memory[what]:.1f} | "
                f"{1 / seconds:.2f} | {found} | {ideal} | "
                + " | ".join(f"{pages[k]:,.0f}" for k in list(pages)[:5])
                + f" | {seconds / (in_memory[what] + pages['read'] / rate):.2f} | "
                f"{seconds / (in_memory[what] + with_writes / rate):.2f} | "
                f"{after['resident'] / 1e6:,.0f} of {after['total'] / 1e6:,.0f} MB |",
                flush=True,
            )
        missed = keys.missed_by_ideal_cache(int(keys.num_keys * share), batches)
        print(f"  An ideal cache of rows reads {missed:,.0f} rows a step.", flush=True)
        model.close()
        del model
    return points


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("disk", help="a folder on it")
    parser.add_argument("--num-keys", type=int, default=4_000_000)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=106_496)
    parser.add_argument("--share", type=float, default=0.25, help="of rows and slots in memory")
    parser.add_argument("--exponents", type=float, nargs="+", default=[1.05, 0.8, 1.2])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warm-up", type=int, default=18, help="steps")
    parser.add_argument("--cgroup", help="the folder of a memory cgroup to run in")
    parser.add_argument(
        "--picture", action="store_true", help="measure more shares, for the picture"
    )
    arguments = parser.parse_args()
    with _cgroup(arguments.cgroup):
        rate = reads_a_second(arguments.disk)
        print(f"The disk reads {rate:,.0f} random pages of {_PAGE} bytes/s, {_DEPTH} at once.\n")
        print(
            "| Zipf | share | steps | in memory, a second | in files, a second | keys found in "
            "memory | by an ideal cache of rows | pages read a step | written | dirtied | read by "
            "the disk | written by the disk | step over its bar | over its bar with writes | in "
            "memory |\n" + "|---" * 15 + "|"
        )
        for exponent in arguments.exponents:
            keys = Keys(arguments.num_keys, exponent, arguments.batch_size)
            is_drawn = arguments.picture and exponent == 1.05
            shares = [0.1, 0.25, 0.5, 1.0] if is_drawn else [arguments.share]
            figures = compare(keys, shares, arguments, rate)
            if is_drawn:
                command = "python -m benchmarks.larger_than_memory DISK --picture"
                drawn = {what: figures[what] for what in ("training", "lookup")}
                measured.write("larger_than_memory", command, {"steps_per_second": drawn})
        print(f"\nThe process has {_resident_megabytes():,.0f} MB of memory.")


if __name__ == "__main__":
    main()
