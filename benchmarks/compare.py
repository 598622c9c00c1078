# SPDX-License-Identifier: Apache-2.0
"""Two builds of this library in one run, in turn: `python -m benchmarks.compare --before PYTHON`.

PYTHON is the interpreter of an environment in which the other build is installed. Both run this
file's benchmarks, each in a process of its own that holds one case at a time.
"""

import argparse
import contextlib
import itertools
import json
import statistics
import subprocess
import sys

import numpy as np

from benchmarks.tables import lines
from benchmarks.timing import WARM_UP_ROUNDS, timed

LIMIT = 1.03  # of a case's time before
THREADS = 2


def _one_key_a_feature(optimizer, dim, what):
    from benchmarks.contenders import make_ours
    from benchmarks.training import insert_all_keys
    from benchmarks.workload import Workload

    workload = Workload()
    ours = make_ours(optimizer, dim, workload.num_keys, workload.num_features, THREADS)
    insert_all_keys([ours], workload)
    return ours, what, [(batch,) for batch in workload.batches()]


def _bags(combiner, dim):
    from benchmarks import bags
    from benchmarks.workload import Workload

    workload = Workload()
    batches = bags.make_batches(workload)
    ours = bags.make_ours(combiner, dim, workload.num_keys, THREADS)
    for batch in batches:
        ours.run("insert", *batch)
    return ours, "step", batches


def _decay(dim):
    from benchmarks import decay
    from benchmarks.workload import Workload

    ours = decay.make_ours(10, dim, THREADS)
    ours.run("insert", np.arange(decay.NUM_ROWS).reshape(-1, 1, 1))
    batches = Workload().batches()
    return ours, "train", [(batch.reshape(-1, 1, 1) % decay.NUM_ROWS,) for batch in batches]


def _inserts(dim):
    from benchmarks import inserts
    from benchmarks.contenders import make_ours
    from benchmarks.workload import Workload

    workload = Workload()
    ours = make_ours(None, dim, inserts.NUM_NEW_KEYS, workload.num_features, THREADS)
    batches = [(keys,) for keys in inserts.batches_of_new_keys(0, inserts.NUM_NEW_KEYS, workload)]
    return ours, "insert", batches


CASES = {
    **{
        f"train, {optimizer}, dim {dim}": (_one_key_a_feature, optimizer, dim, "train")
        for dim in (4, 16, 64, 128)
        for optimizer in ("adagrad", "lazy_adam")
    },
    **{f"look up, dim {dim}": (_one_key_a_feature, None, dim, "look_up") for dim in (4, 16, 64)},
    "bags, mean, dim 16": (_bags, "mean", 16),
    "bags, sum, dim 16": (_bags, "sum", 16),
    "Adam on all rows, dim 16": (_decay, 16),
    "new keys, dim 16": (_inserts, 16),
}

NEW_IN_EACH_STEP = ("new keys, dim 16",)  # cases in which no batch may come twice


def work():
    """Reads {"case": name} or {"steps": n} from standard input, a line each, and answers."""
    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    with contextlib.ExitStack() as stack:
        for line in sys.stdin:
            asked = json.loads(line)
            if "case" in asked:
                stack.close()
                make, *arguments = CASES[asked["case"]]
                contender, what, batches = make(*arguments)
                stack.enter_context(contender)
                upcoming, answer = itertools.cycle(batches), {"batches": len(batches)}
            else:
                taken = itertools.islice(upcoming, asked["steps"])
                seconds = [timed(contender.run, what, *batch) for batch in taken]
                answer = {"seconds": statistics.median(seconds)}
            print(json.dumps(answer), flush=True)


class Build:
    """One build, in a process of its own. Use as a context."""

    def __init__(self, python):
        command = [python, "-m", "benchmarks.compare", "--work"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, text=True, **pipes)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._process.stdin.close()
        self._process.wait()

    def ask(self, **question):
        print(json.dumps(question), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the build's process ended with status {self._process.wait()}")
        return json.loads(answer)


def compare(builds, case, rounds, steps):
    """Median seconds of a step of each build, over `rounds` medians of `steps` steps in turn."""
    for build in builds:
        num_batches = build.ask(case=case)["batches"]
        build.ask(steps=WARM_UP_ROUNDS)
    if case in NEW_IN_EACH_STEP:
        steps = (num_batches - WARM_UP_ROUNDS) // rounds
    medians = [[build.ask(steps=steps)["seconds"] for build in builds] for _ in range(rounds)]
    return [statistics.median(of_one) for of_one in zip(*medians)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", help="the interpreter of the build to compare with")
    parser.add_argument("--after", default=sys.executable)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=[*CASES])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work()
        return
    if not arguments.before:
        parser.error("--before is needed: the interpreter of the build to compare with")
    rows = []
    with Build(arguments.before) as before, Build(arguments.after) as after:
        for case in arguments.cases:
            old, new = compare([before, after], case, arguments.rounds, arguments.steps)
            mark = "" if new <= LIMIT * old else f"above {LIMIT:g}"
            rows.append([case, f"{old * 1e3:.2f}", f"{new * 1e3:.2f}", f"{new / old:.3f}", mark])
            print(*rows[-1], sep="  ", flush=True)
    print()
    headings = ["", "before, ms", "after, ms", "after over before", f"at most {LIMIT:g}"]
    print(*lines(headings, rows), sep="\n")


if __name__ == "__main__":
    main()
