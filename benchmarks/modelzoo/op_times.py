# SPDX-License-Identifier: Apache-2.0
"""Time of a step's ops, from the timelines that scripts write with their flag --timeline."""

import dataclasses
import json
import os
import statistics

FLAG = "timeline"
_PRODUCTS = ("MatMul", "_FusedMatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")


@dataclasses.dataclass(frozen=True)
class OpTimes:
    """Milliseconds of all ops of a step, summed over threads."""

    products: float  # of dense matrices
    others: float


def read(folder):
    """The medians of the timelines below a folder, without the first; None if there are none."""
    found = sorted(
        (
            os.path.join(above, name)
            for above, _, names in os.walk(folder)
            for name in names
            if name.startswith("timeline-") and name.endswith(".json")
        ),
        key=lambda path: int(path.rpartition("-")[2].removesuffix(".json")),
    )
    times = [_times_of(path) for path in found[1:] or found]
    if not times:
        return None
    return OpTimes(*(statistics.median(column) for column in zip(*times)))


def _times_of(path):
    with open(path) as stream:
        events = [each for each in json.load(stream)["traceEvents"] if each.get("ph") == "X"]
    products = sum(each["dur"] for each in events if each["name"] in _PRODUCTS)
    return products / 1e3, sum(each["dur"] for each in events) / 1e3 - products / 1e3
