# SPDX-License-Identifier: Apache-2.0
"""Time of a step's ops, from the timelines that scripts write with their flag --timeline."""

import dataclasses
import json
import os
import re
import statistics

FLAG = "timeline"
# Also as oneDNN names them, where TensorFlow takes it.
_PRODUCT = re.compile(r"(_Mkl(Native)?)?_?(Fused)?(Batch)?MatMul(V\d)?")
# In names of nodes that are not of the script's own network: input, columns, lookups, optimizers,
# metrics. Gradients have the names of what they are gradients of.
_NOT_OF_NETWORK = re.compile(
    "iterator|parquet|csv|dataset|input_layer|embedding|lookup|string|sparse|hash|vocab|sok|seq|"
    "optimizer|adam|adagrad|beta[12]|/update|metrics|auc|summary|histogram|save",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True)
class OpTimes:
    """Milliseconds of all ops of a step, summed over threads."""

    products: float  # of dense matrices
    network: float  # other ops of the network, by names of nodes
    rest: float

    @property
    def others(self) -> float:
        """All but products."""
        return self.network + self.rest


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
    times = dict.fromkeys(("products", "network", "rest"), 0)
    for event in events:
        times[_kind_of(event)] += event["dur"] / 1e3
    return tuple(times.values())


def _kind_of(event):
    if _PRODUCT.fullmatch(event["name"]):
        return "products"
    return "rest" if _NOT_OF_NETWORK.search(event["args"]["name"]) else "network"
