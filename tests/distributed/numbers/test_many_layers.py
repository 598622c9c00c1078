# SPDX-License-Identifier: Apache-2.0
"""Layers of many dims without control dependencies: few bytes, no deadlock."""

import json

import pytest

from tests.distributed.launch import launched_once, reports, run_ranks

pytestmark = pytest.mark.thorough

COMMON = dict(batch=64, steps=30, keys=5000, with_horovod=False)
COUNTED = {
    2: [dict(COMMON, layers=layers) for layers in (1, 26)]
    # Bags that are fewer bytes as sums for the wider layers, and as rows for the others.
    + [dict(COMMON, layers=8, combiner="mean", nnz=nnz) for nnz in (3, 20)],
    4: [dict(COMMON, layers=12), dict(COMMON, layers=8, combiner="mean", nnz=3)],
}
BESIDE_HOROVOD = [
    dict(threads=threads, steps=steps, evaluate_every=25) for threads, steps in ((1, 60), (8, 60))
]


@launched_once
def launched(num_ranks):
    """[ranks][settings] of what the worker counted; settings as workers.many_layers has them."""
    settings = COUNTED[num_ranks] + (BESIDE_HOROVOD if num_ranks == 4 else [])
    arguments = [json.dumps(one) for one in settings]
    return reports(run_ranks("numbers.many_layers", num_ranks, *arguments, timeout=300))


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_three_exchanges_of_few_bytes_for_a_layer(num_ranks):
    for settings, *results in zip(COUNTED[num_ranks], *launched(num_ranks)):
        for rank in results:
            assert rank["exchanges"] == 3 * settings["layers"] * rank["steps"]
        all_bytes = sum(rank["bytes"] for rank in results)
        assert all_bytes <= 1.05 * sum(rank["least_bytes"] for rank in results)


def test_no_deadlock_beside_horovod():
    for rank in launched(4):
        for one in rank[len(COUNTED[4]) :]:
            assert one["steps"] >= 50
