# SPDX-License-Identifier: Apache-2.0
"""What a step sends with more ranks, by a model. `python -m benchmarks.growth --hosts 8`.

The global batch stays the same. benchmarks/history/more_ranks.md has the model and its checks.
"""

import argparse
import dataclasses

import numpy as np

from benchmarks.workload import Workload

_KEY_BYTES = 8
_EXCHANGES = 3
_ALIKE = 4  # batches, of which the mean is taken


@dataclasses.dataclass(frozen=True)
class Cost:
    """Of a step with training, for one rank: megabytes are 10^6 bytes."""

    distinct_keys: float
    sent_mb: float  # to other ranks, with headers
    header_mb: float
    of_host_mb: float  # what all ranks of a host send to other hosts
    link_ms: float  # of that, there and back at the same time
    messages: int  # to other ranks, each with what goes to one of them
    waits_ms: float  # of the exchanges, one after the other


def cost(workload, dim, float_bytes, num_layers, num_ranks, num_hosts, rate, exchange_ms):
    """The Cost, for keys of a workload, whose features are split between the layers.

    Args:
      rate: bits a second of a host's link, in each direction.
      exchange_ms: from submitting an exchange without bytes to its end, on all ranks.
    """
    share = workload.batch_size // num_ranks
    distinct = _distinct_keys(workload.batches()[:_ALIKE, :share], num_layers)
    away = (num_ranks - 1) / num_ranks
    payload = distinct * away * (_KEY_BYTES + 2 * float_bytes * dim)
    headers = (num_ranks - 1) * 36 * num_layers
    ranks_of_host = num_ranks // num_hosts
    others = (num_ranks - ranks_of_host) / (num_ranks - 1)
    of_host = ranks_of_host * (payload + headers) * others
    return Cost(
        distinct_keys=distinct,
        sent_mb=(payload + headers) / 1e6,
        header_mb=headers / 1e6,
        of_host_mb=of_host / 1e6,
        link_ms=of_host * 8e3 / rate,
        messages=_EXCHANGES * num_layers * (num_ranks - 1),
        waits_ms=_EXCHANGES * exchange_ms,
    )


def _distinct_keys(batches, num_layers):
    """Of a batch [samples, features], in the mean of several, summed over layers."""
    parts = np.array_split(batches, num_layers, axis=2)
    counts = [len(np.unique(batch)) for part in parts for batch in part]
    return sum(counts) / len(batches)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8, 64])
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=4096, help="of all ranks")
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--float-bytes", type=int, default=4, choices=(2, 4))
    parser.add_argument("--gbit", type=float, default=10.0, help="of each host's link")
    parser.add_argument("--exchange-ms", type=float, default=1.1, help="without bytes")
    arguments = parser.parse_args()
    workload = Workload(batch_size=arguments.batch_size, num_batches=_ALIKE)
    print("".join(f"{name:>15}" for name in ("ranks", *Cost.__dataclass_fields__)))
    for num_ranks in arguments.ranks:
        of_step = cost(
            workload, arguments.dim, arguments.float_bytes, arguments.layers, num_ranks,
            min(arguments.hosts, num_ranks), arguments.gbit * 1e9, arguments.exchange_ms,
        )  # fmt: skip
        cells = (num_ranks, *dataclasses.astuple(of_step))
        print("".join(f"{cell:>15,.3f}".removesuffix(".000").rjust(15) for cell in cells))


if __name__ == "__main__":
    main()
