# SPDX-License-Identifier: Apache-2.0
"""One rank of `python -m benchmarks.checkpoints`: saves and restores a table with a slot by
tf.train.Saver, in turn with dd, which moves as many bytes in blocks of the same size.

All ranks do the same at a time. Before what reads, the page cache is dropped where that is allowed;
else it is warm for both.
"""

import argparse
import gc
import json
import os
import subprocess
import time

import numpy as np
import tensorflow as tf

from benchmarks.inserts import INDEX_BYTES, resident_bytes
from sok_compat.checkpoint import IncrementalSaver, assign_rows, save_tables_in_checkpoints
from sok_compat.ranks.allgather_strings import allgather_strings
from sok_compat.tables import Table, slot_for

tf1 = tf.compat.v1
BLOCK = "16M"
_ODD = np.uint64(0x9E3779B97F4A7C15)


class Saved:
    """The table in a session, and its savers."""

    def __init__(self, num_keys, dim, share):
        save_tables_in_checkpoints()
        self._table = Table(None, dim, name="table")
        slot_for(self._table, "optimizer", "slot", width=dim, fill=0.1)
        self.num_ranks, self.rank = self._table.ranks.size, self._table.ranks.rank
        keys, rows = tf1.placeholder(tf.int64, [None]), tf1.placeholder(tf.float32, [None, dim])
        assign = assign_rows(self._table, keys, rows)
        self._saver, self._series = tf1.train.Saver(), IncrementalSaver()
        self._change = self._change_rows(int(num_keys // self._table.ranks.size * share))
        self._session = tf1.Session()
        self._session.run(tf1.global_variables_initializer())
        numbers = (np.arange(num_keys, dtype=np.uint64) * _ODD).view(np.int64)
        values = np.random.default_rng(1).random((num_keys, dim), np.float32)
        self._session.run(assign, {keys: numbers, rows: values})
        self.table_bytes = num_keys // self.num_ranks * (2 * dim * 4 + INDEX_BYTES)

    def save(self, path):
        self._saver.save(self._session, path, write_meta_graph=False, write_state=False)

    def restore(self, path):
        self._saver.restore(self._session, path)

    def begin_series(self, path):
        """Saves a whole checkpoint, which increments follow."""
        self._series.save(self._session, path, write_meta_graph=False, write_state=False)

    def save_increment(self, path, number):
        self._series.save_increment(self._session, path, number)

    def change(self):
        """Other values in a share of the rows, here and there."""
        self._session.run(self._change)

    def _change_rows(self, count):
        rows = tf.random.uniform([count], 0, self._table.num_keys(), tf.int64)
        return tf.raw_ops.ResourceScatterAdd(
            resource=self._table.handle, indices=rows, updates=tf.ones([count, self._table.dim])
        )


def _dd(*operands):
    subprocess.run(["dd", f"bs={BLOCK}", *operands], check=True, stderr=subprocess.DEVNULL)


def _write_by_dd(path, num_bytes):
    count = f"count={num_bytes}"
    _dd("if=/dev/zero", f"of={path}", count, "iflag=count_bytes", "conv=fsync")


def _drop_cache():
    """Whether the system lets us."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("1")
    except OSError:
        return False
    return True


def _seconds(do, *args):
    """From when all ranks begin to when all have ended."""
    allgather_strings("begin", "")
    start = time.perf_counter()
    do(*args)
    allgather_strings("end", "", is_patient=True)
    return time.perf_counter() - start


def _most_bytes_of(do, *args):
    """(seconds, resident bytes at most while it ran, beyond those before)."""
    gc.collect()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = resident_bytes()
    seconds = _seconds(do, *args)
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return seconds, (int(fields["VmHWM"].split()[0]) << 10) - before


def measure(folder, num_keys, dim, rounds, share):
    """Figures of this rank, a dict of lists by round, and of all."""
    saved = Saved(num_keys, dim, share)
    path, file = f"{folder}/model", f"{folder}/dd of {saved.rank}"
    saved.save(path)
    figures = {what: [] for what in ("save", "restore", "write", "read")}
    beyond = {"save": [], "restore": []}
    data_bytes = sum(
        os.path.getsize(f"{folder}/{name}") for name in os.listdir(folder) if ".data" in name
    )

    def write_by_dd():
        figures["write"].append(_seconds(_write_by_dd, file, data_bytes // saved.num_ranks))

    def save():
        seconds, most = _most_bytes_of(saved.save, path)
        figures["save"].append(seconds)
        beyond["save"].append(most)

    def read_by_dd():
        figures["read"].append(_seconds(_dd, f"if={file}", "of=/dev/null"))

    def restore():
        seconds, most = _most_bytes_of(saved.restore, path)
        figures["restore"].append(seconds)
        beyond["restore"].append(most - saved.table_bytes)  # the table that it fills

    for number in range(rounds):
        # Each goes first as often as the other: disks may be fast for the first GB, and slow then.
        order = slice(None, None, -1 if number % 2 else 1)
        for do in (write_by_dd, save)[order]:
            do()
        for do in (read_by_dd, restore)[order]:
            is_cold = _drop_cache()
            do()
    increments = measure_increments(saved, folder, rounds)
    return {
        "increments": increments,
        "rank": saved.rank, "data_bytes": data_bytes, "table_bytes": saved.table_bytes,
        "is_cold": is_cold, "seconds": figures, "beyond_bytes": beyond,
    }  # fmt: skip


def measure_increments(saved, folder, rounds):
    """Bytes of an increment, and seconds, also of this rank's processors, of saving it and of a
    chain's restore."""
    path = f"{folder}/series"
    saved.begin_series(path)
    figures = {"bytes": [], "save": [], "save_cpu": []}
    for number in range(rounds):
        saved.change()
        start = time.process_time()
        figures["save"].append(_seconds(saved.save_increment, path, number))
        figures["save_cpu"].append(time.process_time() - start)
        names = [name for name in os.listdir(folder) if name.startswith(f"series-{number}.data")]
        figures["bytes"].append(sum(os.path.getsize(f"{folder}/{name}") for name in names))
    start = time.process_time()
    figures["restore"] = [_seconds(saved.restore, f"{path}-{rounds - 1}")]
    figures["restore_cpu"] = [time.process_time() - start]
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True, help="on the disk, for files of a few GB")
    parser.add_argument("--num-keys", type=int, required=True)
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--num-ranks", type=int, required=True)
    parser.add_argument("--share", type=float, required=True, help="of rows that change")
    arguments = parser.parse_args()
    tf1.disable_eager_execution()
    if arguments.num_ranks > 1:
        import horovod.tensorflow as hvd

        hvd.init()
    sizes = arguments.num_keys, arguments.dim
    figures = measure(arguments.folder, *sizes, arguments.rounds, arguments.share)
    with open(f"{arguments.folder}/figures of {figures['rank']}.json", "w") as file:
        json.dump(figures, file)


if __name__ == "__main__":
    main()
