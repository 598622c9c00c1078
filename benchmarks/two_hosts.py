# SPDX-License-Identifier: Apache-2.0
"""Steps of ranks on two hosts, which are network namespaces of this one.

`sudo python -m benchmarks.two_hosts` runs benchmarks.communication_steps with 2 x 1 and 2 x 2 ranks
across a link of 10 Gbit/s and 100 us, and says what a step takes over what its bytes take on the
link; `--by mpi` starts them with mpiexec. `--cut` takes the link away instead, and says when each
rank names which rank it has lost. Needs root, iproute2 and Horovod, or mpich and mpi4py; where
namespaces are not to be had, it says why and ends with 0.
"""

import argparse
import importlib.util
import json
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.ranks_of_hosts import Job, JobOfMpi
from benchmarks.two_namespaces import NoNamespaces, TwoHosts

_TIMEOUT_SECONDS = 300
_JOBS = {"horovod": Job, "mpi": JobOfMpi}
_UNITS = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_HEADINGS = (
    "ranks", "layers", "pooled", "MB/step", "MB on link", "link ms", "step ms", "over link",
    "without exchange ms",
)  # fmt: skip
_TRIPS = 3


def measure(hosts, ranks_of_host, arguments):
    """The results of communication_steps, and the bytes of all its steps on the link."""
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result.json")
        program = [sys.executable, "-m", "benchmarks.communication_steps", "--result", result]
        program += ["--rounds", str(arguments.rounds), "--layers", *map(str, arguments.layers)]
        program += ["--dim", str(arguments.dim), "--threads", "1"]
        with _JOBS[arguments.by](hosts, ranks_of_host, program) as job:
            job.wait(_TIMEOUT_SECONDS)
        with open(result) as stream:
            return json.load(stream)


def line_of(result, ranks_of_host, rate, delay):
    """The cells of a line; bytes go to each rank alike, and some of them stay on the host."""
    num_ranks = 2 * ranks_of_host
    on_link = result["sent_bytes"] * ranks_of_host * ranks_of_host / (num_ranks - 1)
    link_seconds = on_link * 8 / rate + _TRIPS * delay
    return (
        f"2 x {ranks_of_host}",
        str(result["num_layers"]),
        "yes" if result["is_pooled"] else "no",
        f"{result['sent_bytes'] / 1e6:.2f}",
        f"{on_link / 1e6:.2f}",
        f"{link_seconds * 1e3:.2f}",
        f"{result['seconds'] * 1e3:.1f}",
        f"{result['seconds'] / link_seconds:.1f}",
        f"{result['local_seconds'] * 1e3:.1f}",
    )


def cut(hosts, ranks_of_host, environment=None, by="horovod"):
    """Takes the link away in the middle of steps.

    Returns:
      [(seconds until it noticed, what it says)] of each rank.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = [sys.executable, "-m", "benchmarks.steps_until_lost", folder]
        with _JOBS[by](hosts, ranks_of_host, program, environment) as job:
            paths = [Path(folder, str(rank)) for rank in range(2 * ranks_of_host)]
            _await(job, [path.with_suffix(".steps") for path in paths])
            hosts.cut(1)
            began = time.time()
            _await(job, [path.with_suffix(".lost") for path in paths])
        lost = [json.loads(path.with_suffix(".lost").read_text()) for path in paths]
    return [(seen["when"] - began, seen["message"]) for seen in lost]


def _await(job, paths):
    until = time.monotonic() + _TIMEOUT_SECONDS
    while not all(path.exists() for path in paths):
        failed = [process for process in job.ranks if process.poll()]
        if failed or time.monotonic() > until:
            missing = ", ".join(path.name for path in paths if not path.exists())
            printed = failed[0].stdout.read()[-3000:] if failed else ""
            raise RuntimeError(f"ranks have not written {missing}:\n{printed}")
        time.sleep(0.05)


def _quantity(text):
    """A number with tc's unit, in bits a second or seconds."""
    number, unit = re.fullmatch(r"([\d.]+)([a-z]+)", text).groups()
    return float(number) * _UNITS[unit]


def _line(cells):
    return "".join(f"{cell:>{max(len(h), 6) + 2}}" for cell, h in zip(cells, _HEADINGS))


def _report_steps(arguments):
    print(_line(_HEADINGS))
    for ranks_of_host in arguments.ranks:
        with TwoHosts(arguments.rate, arguments.delay) as hosts:
            delay = _quantity(arguments.delay) if "one way" in hosts.link else 0.0
            for result in measure(hosts, ranks_of_host, arguments):
                cells = line_of(result, ranks_of_host, _quantity(arguments.rate), delay)
                print(_line(cells), flush=True)
            sent = [hosts.sent_bytes(host) / 1e6 for host in (0, 1)]
            link = hosts.link
        print(f"  the interfaces counted {sent[0]:.0f} and {sent[1]:.0f} MB in all steps")
    print(f"link: {link}")


def _report_cut(arguments):
    for ranks_of_host in arguments.ranks:
        with TwoHosts(arguments.rate, arguments.delay) as hosts:
            seen = cut(hosts, ranks_of_host, by=arguments.by)
        for rank, (seconds, message) in enumerate(seen):
            print(f"2 x {ranks_of_host}, rank {rank} after {seconds:.1f} s: {message}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], help="on each host")
    parser.add_argument("--rate", default="10gbit", help="of the link, as tc has it")
    parser.add_argument("--delay", default="100us", help="one way, as tc has it")
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 26])
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=30, help="timed steps")
    parser.add_argument("--by", choices=sorted(_JOBS), default="horovod", help="between hosts")
    parser.add_argument("--cut", action="store_true", help="take the link away")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that contexts end
    if arguments.by == "horovod" and importlib.util.find_spec("horovod") is None:
        print("Horovod is not installed (`make horovod`): two hosts are not measured")
        return
    try:
        (_report_cut if arguments.cut else _report_steps)(arguments)
    except NoNamespaces as reason:
        print(f"two hosts are not measured: {reason}")


if __name__ == "__main__":
    main()
