# SPDX-License-Identifier: Apache-2.0
"""What several ranks cost: bytes, exchanges, speed. `python -m benchmarks.communication`.

Starts `horovodrun -np N python -m benchmarks.communication_steps`, or mpiexec, for each N and
prints one table for each way between ranks. Needs Horovod, or mpich and mpi4py; see
docs/understand/performance.md.
"""

import argparse
import importlib.util
import json
import os
import statistics
import sys
import tempfile

from benchmarks.launching import WAYS, launcher, run_program

_HEADINGS = (
    "ranks", "layers", "pooled", "MB/step", "over least", "exchanges", "step ms", "samples/s",
    "without exchange ms", "times it", "processor ms", "without", "share",
)  # fmt: skip
_TIMEOUT_SECONDS = 300
_ROUNDS = 30
_DLRM_ROUNDS = 300
_DLRM_TURNS = 3
LARGEST_OVER_LEAST = 1.05


def measure(num_ranks, layers, cycle_ms, rounds, real_time=False, way="memory"):
    """The results of communication_steps, a dict for each number of layers.

    Args:
      real_time: whether timed steps come before all else on the machine; see
        benchmarks.real_time.
      way: one of WAYS.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result.json")
        command = launcher(way, num_ranks)
        command += [sys.executable, "-m", "benchmarks.communication_steps", "--result", result]
        command += ["--rounds", str(rounds), "--layers", *map(str, layers)]
        command += ["--threads", str(max(1, os.cpu_count() // num_ranks))]
        if real_time:
            command.append("--real-time")
        environment = {"HOROVOD_CYCLE_TIME": str(cycle_ms), **WAYS[way]}
        run_program(command, _TIMEOUT_SECONDS, environment)
        with open(result) as stream:
            return json.load(stream)


def measure_dlrm(num_ranks, cycle_ms, rounds, real_time, way):
    """Samples a second of whole steps of examples/dlrm; one process has all the threads.

    Args:
      cycle_ms: HOROVOD_CYCLE_TIME; None: what Horovod has.
      way: one of WAYS.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result.json")
        command = [sys.executable, "-m", "benchmarks.dlrm_steps", "--result", result]
        command += ["--rounds", str(rounds), "--threads", str(max(1, os.cpu_count() // num_ranks))]
        command += ["--real-time"] * real_time
        environment = {} if cycle_ms is None else {"HOROVOD_CYCLE_TIME": str(cycle_ms)}
        run_program(
            [*launcher(way, num_ranks), *command], _TIMEOUT_SECONDS, {**environment, **WAYS[way]}
        )
        with open(result) as stream:
            return json.load(stream)


def _compare_dlrm(arguments):
    """Prints it for several ranks beside one process, in turn."""
    cycle_ms = arguments.cycle_times[0] if arguments.cycle_times else None
    rounds = arguments.rounds or _DLRM_ROUNDS
    several = sorted(set(arguments.ranks) - {1})
    speeds = {(1, "alone"): [], **{(n, way): [] for n in several for way in arguments.by}}
    for _ in range(_DLRM_TURNS):
        for (num_ranks, way), seen in speeds.items():
            way = "memory" if num_ranks == 1 else way
            seen.append(measure_dlrm(num_ranks, cycle_ms, rounds, arguments.real_time, way))
    one = statistics.median(speeds[1, "alone"])
    for (num_ranks, way), seen in speeds.items():
        speed = statistics.median(seen)
        print(
            f"whole DLRM step, ranks {num_ranks}, {way}: {speed:,.0f} samples/s, "
            f"{speed / one:.2f} of 1"
        )


def _line(cells):
    return "".join(f"{cell:>{max(len(h), 9) + 2}}" for cell, h in zip(cells, _HEADINGS))


def _cells(result):
    if result["num_ranks"] == 1:
        bytes_and_exchanges = ("-", "-", "-")
        share = "-"
    else:
        bytes_and_exchanges = (
            f"{result['sent_bytes'] / 1e6:.2f}",
            f"{result['sent_bytes'] / result['least_bytes']:.3f}",
            f"{result['exchanges']:.2f}",
        )
        share = f"{max(1 - result['local_seconds'] / result['seconds'], 0):.0%}"
    return (
        str(result["num_ranks"]),
        str(result["num_layers"]),
        "yes" if result["is_pooled"] else "no",
        *bytes_and_exchanges,
        f"{result['seconds'] * 1e3:.1f}",
        f"{_samples_per_second(result):,.0f}",
        f"{result['local_seconds'] * 1e3:.1f}",
        f"{result['seconds'] / result['local_seconds']:.2f}",
        f"{result['cpu_seconds'] * 1e3:.1f}",
        f"{result['local_cpu_seconds'] * 1e3:.1f}",
        share,
    )


def _samples_per_second(result):
    return result["batch_size"] / result["seconds"]


def _print_beside_one(results):
    """Samples a second of several ranks over those of one, for each kind of step."""
    kinds = {(result["num_layers"], result["is_pooled"]) for result in results}
    for kind in sorted(kinds):
        speeds = {
            result["num_ranks"]: _samples_per_second(result)
            for result in results
            if (result["num_layers"], result["is_pooled"]) == kind
        }
        if 1 in speeds:
            words = f"{kind[0]} layers{' pooled' * kind[1]}"
            for num_ranks in sorted(set(speeds) - {1}):
                ratio = speeds[num_ranks] / speeds[1]
                print(f"{words}: samples/s of {num_ranks} ranks over one process: {ratio:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 8, 26])
    parser.add_argument(
        "--cycle-times", type=float, nargs="+", help="of Horovod, in milliseconds (default: 1)"
    )
    parser.add_argument(
        "--rounds", type=int, help=f"timed steps (default: {_ROUNDS}, whole ones {_DLRM_ROUNDS})"
    )
    parser.add_argument(
        "--real-time",
        action="store_true",
        help="timed steps come before other programs, for machines that are busy; needs root",
    )
    parser.add_argument("--by", nargs="+", choices=WAYS, default=["memory"], help="between ranks")
    parser.add_argument("--dlrm", action="store_true", help="whole steps of examples/dlrm instead")
    arguments = parser.parse_args()
    if importlib.util.find_spec("horovod") is None and arguments.by != ["mpi"]:
        print("Horovod is not installed (`make horovod`): communication is not measured")
        return
    if arguments.dlrm:
        _compare_dlrm(arguments)
        return
    rounds = arguments.rounds or _ROUNDS
    worst = 0.0
    for cycle_ms in arguments.cycle_times or [1.0]:
        for way in arguments.by:
            print(
                f"\nHOROVOD_CYCLE_TIME {cycle_ms:g} ms, {os.cpu_count()} cores shared by all ranks"
            )
            print(f"between ranks: {way}\n{_line(_HEADINGS)}")
            results = []
            for num_ranks in arguments.ranks:
                of_ranks = measure(
                    num_ranks, arguments.layers, cycle_ms, rounds, arguments.real_time, way
                )
                results += of_ranks
                for result in of_ranks:
                    print(_line(_cells(result)), flush=True)
                    if num_ranks > 1:
                        worst = max(worst, result["sent_bytes"] / result["least_bytes"])
            _print_beside_one(results)
    if worst:
        print(f"\nsent over least: at most {worst:.3f} (to stay below {LARGEST_OVER_LEAST})")
        sys.exit(worst > LARGEST_OVER_LEAST)


if __name__ == "__main__":
    main()
