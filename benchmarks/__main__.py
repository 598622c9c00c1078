# SPDX-License-Identifier: Apache-2.0
"""Speed of whole steps beside plain TensorFlow and a peer: `python -m benchmarks`.

Prints Markdown; docs/understand/performance.md says what the numbers mean.
"""

import argparse
import datetime
import os

import numpy as np
import tensorflow as tf

from benchmarks import bags, dcn, decay, groups, inserts, kept, scaling, sok2, training
from benchmarks.tables import comparison_lines, lines
from benchmarks.workload import Workload

MAIN_DIM = 16


class Report:
    """Prints as it goes, and keeps what it printed."""

    def __init__(self):
        self._lines = []
        self.comparisons = []  # [(section, Comparison)]

    def add(self, *new_lines):
        print(*new_lines, "", sep="\n", flush=True)
        self._lines += [*new_lines, ""]

    def compare(self, section, comparisons):
        self.comparisons += [(section, each) for each in comparisons]
        self.add(*comparison_lines(comparisons))

    def write(self, path):
        with open(path, "w") as stream:
            stream.write("\n".join(self._lines))


def _introduce(report, arguments, workload):
    distinct = np.mean([len(np.unique(batch)) for batch in workload.batches()])
    report.add(
        "# Benchmark results",
        "",
        f"{datetime.date.today()}, {kept.processor()}, {os.cpu_count()} cores; TensorFlow "
        f"{tf.__version__}, {arguments.threads} threads. Batches of {workload.batch_size:,} x "
        f"{workload.num_features} of {workload.num_keys:,} keys, Zipf {workload.exponent}: "
        f"{distinct:,.0f} distinct keys in a batch. Medians of {arguments.rounds} steps, taken in "
        "turn.",
    )


def _report_training(report, arguments, workload):
    report.add("## One key a feature: training and lookup")
    lookups = []
    for dim in arguments.dims:
        trained, looked_up = training.compare(dim, workload, arguments.threads, arguments.rounds)
        lookups.append(looked_up)
        report.compare("training", trained)
    report.add("Lookup, all keys known:")
    report.compare("lookup", lookups)


def _report_bags(report, arguments, workload):
    report.add("## Ragged bags, forward and backward")
    compared = bags.compare(MAIN_DIM, workload, arguments.threads, arguments.rounds)
    report.compare("bags", compared)


def _report_groups(report, arguments, workload):
    report.add("## One table a feature: DeepRec's grouped lookup, its gradient and Adagrad")
    compared = groups.compare_all(workload, arguments.threads, arguments.rounds)
    report.compare("groups", compared)


def _report_sok2(report, arguments, workload):
    report.add("## SparseOperationKit 2: lookup_sparse, its gradient and Adagrad")
    compared = []
    for dim in arguments.dims:
        compared += sok2.compare(dim, workload, arguments.threads, arguments.rounds)
    report.compare("sok2", compared)


def _report_dcn(report, arguments, workload):
    report.add("## A whole model: examples/deeprec, in steps a second")
    compared = dcn.compare(arguments.threads, arguments.rounds)
    report.comparisons += [("dcn", one) for one in compared]
    rows = [[one.what, *(f"{1 / seconds:.1f}" for seconds in one.seconds.values())]
            for one in compared]  # fmt: skip
    report.add(*lines(["", *compared[0].seconds], rows))


def _report_decay(report, arguments, workload):
    report.add("## sok.optimizers.Adam: all rows move")
    compared = decay.compare(MAIN_DIM, workload, arguments.threads, arguments.rounds)
    report.compare("decay", compared)


def _report_inserts(report, arguments, workload):
    report.add("## New keys")
    compared = inserts.compare(MAIN_DIM, workload, arguments.threads)
    report.compare("inserts", [compared])
    ratio = inserts.memory_ratio(MAIN_DIM, workload, arguments.threads)
    report.add(
        f"Resident memory of {inserts.NUM_NEW_KEYS:,} keys with Adagrad, dim {MAIN_DIM}, over "
        f"rows, slots and {inserts.INDEX_BYTES} bytes a key: {ratio:.2f} (at most "
        f"{inserts.MEMORY_BAR})."
    )


def _report_growth(report, arguments, workload):
    report.add(f"## {inserts.MANY_KEYS:,} keys of dim {inserts.MANY_KEYS_DIM}, Adagrad")
    if inserts.available_bytes() < inserts.MANY_KEYS_BYTES:
        report.add(f"Left out: it needs {inserts.MANY_KEYS_BYTES >> 30} GiB of free memory.")
        return
    (few, many), used_bytes = inserts.grow(workload, arguments.threads)
    rows = [
        [
            f"{rates.num_keys:,}",
            f"{rates.insert * 1e9:.0f}",
            f"{rates.kernel * 1e9:.0f}",
            f"{rates.look_up * 1e9:.0f}",
        ]
        for rates in (few, many)
    ]
    headings = [
        "keys held",
        "ns a new key, training",
        "CPU ns in the kernel",
        "ns a known key, lookup",
    ]
    report.add(*lines(headings, rows))
    slower_insert = many.insert / few.insert
    slower_look_up = many.look_up / few.look_up
    report.add(
        f"Slower by {slower_insert:.2f} and {slower_look_up:.2f} (at most "
        f"{inserts.SLOWDOWN_BAR:g}); {used_bytes / 2**30:.1f} GiB resident."
    )


def _report_scaling(report, arguments, workload):
    report.add("## Threads, and how often keys repeat")
    taken = scaling.threads(MAIN_DIM, workload, arguments.rounds)
    rows = [[n, f"{s * 1e3:.2f}", f"{taken[1] / s:.2f}"] for n, s in taken.items()]
    report.add(*lines(["threads", "training step, ms", "times one thread"], rows))
    kinds = scaling.distributions(MAIN_DIM, workload, arguments.threads, arguments.rounds)
    _, zipf = kinds["Zipf"]
    rows = [
        [kind, f"{distinct:,}", f"{seconds * 1e3:.2f}", f"{seconds / zipf:.2f}"]
        for kind, (distinct, seconds) in kinds.items()
    ]
    headings = ["keys", "distinct", "training step, ms", "times Zipf"]
    report.add(*lines(headings, rows))
    report.add(f"(at most {scaling.DISTRIBUTION_BAR:g} times Zipf)")


SECTIONS = {
    "training": _report_training,
    "bags": _report_bags,
    "groups": _report_groups,
    "sok2": _report_sok2,
    "dcn": _report_dcn,
    "decay": _report_decay,
    "inserts": _report_inserts,
    "growth": _report_growth,
    "scaling": _report_scaling,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=[*SECTIONS])
    parser.add_argument("--dims", type=int, nargs="+", default=[4, 16, 64, 128])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=60, help="timed steps of each contender")
    parser.add_argument("--num-keys", type=int, default=Workload.num_keys)
    parser.add_argument("--report", help="a Markdown file to write")
    parser.add_argument("--keep", action="store_true", help="add the figures to benchmarks/history")
    arguments = parser.parse_args()
    tf.compat.v1.disable_eager_execution()
    workload = Workload(num_keys=arguments.num_keys)
    report = Report()
    _introduce(report, arguments, workload)
    for section in arguments.sections:
        SECTIONS[section](report, arguments, workload)
    if arguments.report:
        report.write(arguments.report)
    if arguments.keep:
        print(f"kept in {kept.keep(report.comparisons)}")


if __name__ == "__main__":
    main()
