# SPDX-License-Identifier: Apache-2.0
"""Samples a second of several ranks of this host: `python -m benchmarks.pictures.ranks`.

Steps of lookups and updates alone, as `python -m benchmarks.communication` has them. On a machine
that does other work, `--real-time` measures them before it; the file has the load at the start.
"""

import argparse
import os

from benchmarks.communication import measure
from benchmarks.pictures import measured

_CYCLE_MS = 1.0


def curves(results):
    """{kind of step: [[ranks, samples a second]]} of results of `measure`."""
    found = {}
    for result in results:
        number = result["num_layers"]
        title = f"{number} layer{'s' * (number > 1)}{', pooled' * result['is_pooled']}"
        speed = round(result["batch_size"] / result["seconds"])
        found.setdefault(title, []).append([result["num_ranks"], speed])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 26])
    parser.add_argument("--rounds", type=int, default=30, help="timed steps")
    parser.add_argument("--real-time", action="store_true", help="see benchmarks.real_time")
    arguments = parser.parse_args()
    results, loads = [], []
    for num_ranks in arguments.ranks:
        loads.append([num_ranks, round(os.getloadavg()[0], 1)])
        results += measure(
            num_ranks, arguments.layers, _CYCLE_MS, arguments.rounds, arguments.real_time
        )
    figures = {
        "rounds": arguments.rounds,
        "real_time": arguments.real_time,
        "load_before": loads,  # of other programs on the machine
        "samples_per_second": curves(results),
    }
    command = "python -m benchmarks.pictures.ranks" + " --real-time" * arguments.real_time
    measured.write("ranks", command, figures)


if __name__ == "__main__":
    main()
