# SPDX-License-Identifier: Apache-2.0
"""Checkpoints beside dd, and the memory that they need: `python -m benchmarks.checkpoints`.

For each number of ranks, `benchmarks.checkpoint_steps` in as many processes; prints one table. It
needs about four times the table in memory, and three times on the disk.
"""

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile

from benchmarks.launching import run_program
from benchmarks.tables import lines

LEAST_RATIO = 0.6  # of the speed of dd
MOST_BEYOND_BYTES = 256 << 20  # beyond the tables
SHARE = 0.02  # of the rows, which change between two increments
_TIMEOUT_SECONDS = 1800
_HEADINGS = (
    "ranks", "keys", "dim", "GB", "save, MB/s", "times dd", "restore, MB/s", "times dd",
    "beyond, saving, MiB", "restoring, MiB",
)  # fmt: skip
_OF_INCREMENTS = (
    "ranks", "keys", "dim", "MB", "of the whole one", "save, s", "of the whole one",
    "processor, s", "chain, restore, s", "of the whole one",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Size:
    """Of a table with one slot of the width of its rows."""

    num_keys: int
    dim: int

    @classmethod
    def parse(cls, text):
        """`text`: as 2000000x64."""
        num_keys, dim = text.split("x")
        return cls(int(num_keys), int(dim))


@dataclasses.dataclass(frozen=True)
class Figures:
    """Medians of rounds."""

    data_bytes: int
    is_cold: bool  # what is read comes from the disk
    seconds: dict  # of "save", "restore" and dd's "write" and "read", until the last rank has ended
    beyond_bytes: dict  # of "save" and "restore", on the rank that needed most
    increments: dict  # of "bytes", "save", "save_cpu" and "restore" of a chain, on rank 0

    def ratio(self, what):
        """The speed over dd's."""
        of_dd = {"save": "write", "restore": "read"}[what]
        return self.seconds[of_dd] / self.seconds[what]

    @property
    def are_within(self):
        """Whether the bars hold."""
        return all(
            self.ratio(what) >= LEAST_RATIO and self.beyond_bytes[what] <= MOST_BEYOND_BYTES
            for what in ("save", "restore")
        )


def measure(num_ranks, size, rounds, folder=None):
    """Figures of a table that some ranks share.

    Args:
      num_ranks: how many.
      size: its Size.
      rounds: of all that is timed.
      folder: on the disk that is measured; None: the one for temporary files.
    """
    with tempfile.TemporaryDirectory(dir=folder) as place:
        command = [sys.executable, "-m", "benchmarks.checkpoint_steps", "--folder", place]
        command += ["--num-keys", str(size.num_keys), "--dim", str(size.dim)]
        command += ["--rounds", str(rounds), "--num-ranks", str(num_ranks), "--share", str(SHARE)]
        if num_ranks > 1:
            launcher = [sys.executable, "-m", "horovod.runner.launch", "-np", str(num_ranks)]
            command = [*launcher, *command]
        run_program(command, _TIMEOUT_SECONDS)
        of_ranks = []
        for rank in range(num_ranks):
            with open(f"{place}/figures of {rank}.json") as file:
                of_ranks.append(json.load(file))
    first = of_ranks[0]
    return Figures(
        first["data_bytes"],
        first["is_cold"],
        {what: statistics.median(seconds) for what, seconds in first["seconds"].items()},
        {
            what: max(max(each["beyond_bytes"][what]) for each in of_ranks)
            for what in ("save", "restore")
        },
        {what: statistics.median(each) for what, each in first["increments"].items()},
    )


def _cells_of_increments(num_ranks, size, figures):
    found, seconds = figures.increments, figures.seconds
    return [
        num_ranks, f"{size.num_keys:,}", size.dim, f"{found['bytes'] / 1e6:.0f}",
        f"{found['bytes'] / figures.data_bytes:.3f}", f"{found['save']:.2f}",
        f"{found['save'] / seconds['save']:.2f}", f"{found['save_cpu']:.2f}",
        f"{found['restore']:.2f}", f"{found['restore'] / seconds['restore']:.2f}",
    ]  # fmt: skip


def _cells(num_ranks, size, figures):
    speeds = [
        f"{number:{form}}"
        for what in ("save", "restore")
        for number, form in (
            (figures.data_bytes / figures.seconds[what] / 1e6, ".0f"),
            (figures.ratio(what), ".2f"),
        )
    ]
    beyond = [f"{figures.beyond_bytes[what] / 2**20:.0f}" for what in ("save", "restore")]
    gigabytes = f"{figures.data_bytes / 1e9:.2f}"
    return [num_ranks, f"{size.num_keys:,}", size.dim, gigabytes, *speeds, *beyond]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    sizes = [Size(2_000_000, 64), Size(20_000_000, 8)]
    parser.add_argument("--sizes", type=Size.parse, nargs="+", default=sizes, help="2000000x64 ...")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--folder", help="on the disk that is measured")
    arguments = parser.parse_args()
    rows, of_increments, are_within, is_cold = [], [], True, True
    for size in arguments.sizes:
        for num_ranks in arguments.ranks:
            figures = measure(num_ranks, size, arguments.rounds, arguments.folder)
            rows.append(_cells(num_ranks, size, figures))
            of_increments.append(_cells_of_increments(num_ranks, size, figures))
            are_within = are_within and figures.are_within
            is_cold = is_cold and figures.is_cold
    print(*lines(_HEADINGS, rows), sep="\n")
    print(f"\nIncrements, each after {SHARE:.0%} of the rows have changed here and there:")
    print(*lines(_OF_INCREMENTS, of_increments), sep="\n")
    print(
        f"\nRead from {'the disk' if is_cold else 'the page cache'}. At least {LEAST_RATIO:g} "
        f"times dd, and at most {MOST_BEYOND_BYTES >> 20} MiB beyond the tables: "
        f"{'yes' if are_within else 'no'}"
    )
    sys.exit(not are_within)


if __name__ == "__main__":
    main()
