# SPDX-License-Identifier: Apache-2.0
"""Where the time of an exchange goes: a table, and a timeline for chrome://tracing or Perfetto."""

import dataclasses
import json
import statistics
from pathlib import Path

from sok_compat.runtime.exchange_trace import read_trace

_PARTS = (
    ("waits to leave", "asked", "left"),
    ("travels, waits for other ranks", "left", "arrived"),
    ("waits to go on", "arrived", "begun"),
    ("is taken", "begun", "ended"),
)


def write_trace(folder, rank, kind, steps):
    """What this rank has traced, and the (begin, end) of its steps, in nanoseconds."""
    exchanges = [dataclasses.asdict(exchange) for exchange in read_trace()]
    with open(Path(folder) / f"{kind}.{rank}.json", "w") as stream:
        json.dump({"exchanges": exchanges, "steps": steps}, stream)


def summarize(folder, path):
    """Prints the table of each kind of step that ranks have written, and joins their timelines."""
    events = []
    for number, kind in enumerate(sorted({file.stem.rsplit(".", 1)[0] for file in _files(folder)})):
        ranks = [json.loads(file.read_text()) for file in sorted(Path(folder).glob(f"{kind}.*"))]
        _print_table(kind, ranks)
        for rank, traced in enumerate(ranks):
            events += _events(f"{kind}, rank {rank}", 100 * number + rank, traced)
    Path(path).write_text(json.dumps({"traceEvents": events}))
    print(f"\nThe timeline of all ranks is in {path}: open it with chrome://tracing or Perfetto.")


def _files(folder):
    return Path(folder).glob("*.json")


def _print_table(kind, ranks):
    print(f"\n{kind}: an exchange, medians over steps and ranks, ms")
    names = sorted({_exchange_of(one) for rank in ranks for one in rank["exchanges"]})
    print(f"{'':>34}" + "".join(f"{name:>22}" for name in names))
    for what, begin, end in _PARTS:
        cells = []
        for name in names:
            taken = [
                one[end] - one[begin]
                for rank in ranks
                for one in rank["exchanges"]
                if _exchange_of(one) == name
            ]
            cells.append(f"{statistics.median(taken) / 1e6:22.3f}")
        print(f"{what:>34}" + "".join(cells))
    steps = [end - begin for rank in ranks for begin, end in rank["steps"]]
    print(f"{'a step':>34}{statistics.median(steps) / 1e6:22.3f}")


def _exchange_of(traced):
    """Its kind, such as SokExchangeKeys."""
    return traced["name"].rsplit("/", 1)[1].split("_")[0]


def _events(name, process, traced):
    """[event] of Chrome's format: steps in one line, the parts of exchanges in another."""
    events = [{"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}]
    slices = [("step", begin, end, "steps") for begin, end in traced["steps"]]
    for one in traced["exchanges"]:
        for what, begin, end in _PARTS:
            slices.append((f"{_exchange_of(one)} {what}", one[begin], one[end], "exchanges"))
    return events + [
        {"ph": "X", "pid": process, "tid": line, "name": what, "ts": begin / 1e3,
         "dur": (end - begin) / 1e3}
        for what, begin, end, line in slices
    ]  # fmt: skip
