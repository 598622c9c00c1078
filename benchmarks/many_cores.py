# SPDX-License-Identifier: Apache-2.0
"""What a training step would take on more cores than this machine has, by Amdahl's law, op by op:
`python -m benchmarks.many_cores`.

Each op of a step is timed with one thread and with two, one op at a time. Of times t1 and t2,
2 * t2 - t1 is what the op does on one thread alone, and 2 * (t1 - t2) is what its threads share.
Ops of one type of which there is one for each table are taken to run side by side. The model leaves
out what memory and caches do to many threads, for both contenders alike.
"""

import argparse
import dataclasses
import statistics

import numpy as np
import tensorflow as tf

from benchmarks import contenders, groups
from benchmarks.contenders import PLAIN_NAME
from benchmarks.tables import OURS
from benchmarks.timing import in_turns
from benchmarks.workload import Workload

tf1 = tf.compat.v1

CORES = (1, 2, 4, 8, 16, 32)
DIM = 16
FEATURES = 26
ROUNDS = 24
TURN = 6  # steps of a contender before the other one's
SHOWN_OPS = 4  # of a contender


@dataclasses.dataclass(frozen=True)
class OpTime:
    """Milliseconds of all ops of a type in a step."""

    serial: float
    parallel: float
    side_by_side: int  # how many of them may run at once

    def on(self, cores):
        """Milliseconds on that many cores."""
        return self.serial / min(cores, self.side_by_side) + self.parallel / cores


def _amdahl(one_thread, two_threads, side_by_side):
    serial = min(max(2 * two_threads - one_thread, 0.0), one_thread)
    return OpTime(serial, one_thread - serial, side_by_side)


class _TracedStep:
    """A contender in a process of its own, with `num_threads` threads within an op."""

    def __init__(self, name, tables, workload, num_threads):
        tf1.disable_eager_execution()
        if tables == 1:
            make = contenders.make_plain if name == PLAIN_NAME else _make_our_table
            sizes = (DIM, workload.num_keys, workload.num_features)
            self._batches = list(workload.batches())
        else:
            make = groups.make_plain if name == PLAIN_NAME else groups.make_ours
            sizes = (DIM, tables)
            self._batches = [np.ascontiguousarray(batch.T) for batch in workload.batches()]
        self._contender = make(*sizes, (num_threads, 1))
        for batch in self._batches:
            self._contender.run("train", batch)
        self._next = 0

    def run(self, steps):
        """[{type of op: (how many, milliseconds)}] of steps."""
        taken = []
        for _ in range(steps):
            batch = self._batches[self._next % len(self._batches)]
            self._next += 1
            taken.append(self._contender.op_times("train", batch))
        return taken


def _make_our_table(*args):
    return contenders.make_ours("adagrad", *args)


def _start(*args):
    global _step
    _step = _TracedStep(*args)


def _run(steps):
    return _step.run(steps)


def op_times(name, tables, workload):
    """{type of op: OpTime} of a training step; the two processes take turns."""
    arguments = {threads: (name, tables, workload, threads) for threads in (1, 2)}
    taken = in_turns(_start, _run, arguments, ROUNDS // TURN, TURN)
    one_thread, two_threads = _medians(taken[1]), _medians(taken[2])
    counts = taken[1][0]
    return {
        kind: _amdahl(
            one_thread[kind], two_threads[kind], tables if counts[kind][0] >= tables else 1
        )
        for kind in one_thread.keys() & two_threads.keys()
    }


def _medians(steps):
    kinds = {kind for step in steps for kind in step}
    return {
        kind: statistics.median(step[kind][1] if kind in step else 0.0 for step in steps)
        for kind in kinds
    }


def report_lines(what, ops_of_contenders):
    """Milliseconds of a step on each number of cores, and the ops that bound it."""
    lines = [f"## {what}", "", "| cores | " + " | ".join(map(str, CORES)) + " |"]
    lines.append("| --- |" + " ---: |" * len(CORES))
    totals = {
        name: [sum(op.on(cores) for op in ops.values()) for cores in CORES]
        for name, ops in ops_of_contenders.items()
    }
    for name, times in totals.items():
        lines.append(f"| {name}, ms | " + " | ".join(f"{time:.2f}" for time in times) + " |")
    ratios = [plain / ours for ours, plain in zip(totals[OURS], totals[PLAIN_NAME])]
    lines += ["| times as fast | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |", ""]
    for name, ops in ops_of_contenders.items():
        largest = sorted(ops.items(), key=lambda item: -item[1].on(CORES[-1]))[:SHOWN_OPS]
        texts = [
            f"{kind} {op.serial:.2f} on one thread, {op.parallel:.2f} shared"
            for kind, op in largest
        ]
        lines.append(f"- {name}, ms of what bounds it on {CORES[-1]} cores: " + "; ".join(texts))
    return [*lines, ""]


def main(arguments=None):
    """Prints a table for each of the settings."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, nargs="+", default=[1, FEATURES])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[4096, 65536])
    parsed = parser.parse_args(arguments)
    for tables in parsed.tables:
        for batch_size in parsed.batch_sizes:
            num_keys = groups.KEYS_OF_A_TABLE if tables > 1 else 2_000_000
            workload = Workload(batch_size, FEATURES, num_keys, num_batches=4)
            ops = {name: op_times(name, tables, workload) for name in (OURS, PLAIN_NAME)}
            noun = "table" if tables == 1 else "tables"
            what = f"{tables} {noun}, {FEATURES} features, batch {batch_size:,}, dim {DIM}"
            print("\n".join(report_lines(what, ops)), flush=True)


if __name__ == "__main__":
    main()
