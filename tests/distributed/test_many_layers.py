# SPDX-License-Identifier: Apache-2.0
"""Layers of many dims without control dependencies: few exchanges, few bytes, no deadlock."""

import json

import pytest

from tests.distributed.launch import reports, run_ranks


def train(num_ranks, settings, timeout=100):
    """[ranks][settings] of what the worker counted; settings as workers.many_layers has them."""
    arguments = [json.dumps(one) for one in settings]
    return reports(run_ranks("many_layers", num_ranks, *arguments, timeout=timeout))


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_three_exchanges_of_few_bytes_a_step(num_ranks):
    common = dict(batch=64, steps=30, keys=5000, with_horovod=False)
    settings = [dict(common, layers=layers) for layers in (1, 8, 12, 26)]
    # Bags that are fewer bytes as sums for the wider layers, and as rows for the others.
    settings += [dict(common, layers=8, combiner="mean", nnz=nnz) for nnz in (3, 20)]
    for results in zip(*train(num_ranks, settings)):
        for rank in results:
            # A busy machine may tear a group apart now and then.
            assert 3 * rank["steps"] <= rank["exchanges"] <= 6 * rank["steps"]
        all_bytes = sum(rank["bytes"] for rank in results)
        assert all_bytes <= 1.15 * sum(rank["least_bytes"] for rank in results)


def test_no_deadlock_beside_horovod():
    settings = [
        dict(threads=threads, steps=steps, evaluate_every=25)
        for threads, steps in ((1, 60), (2, 60), (8, 120))
    ]
    for rank in train(4, settings, timeout=200):
        for one in rank:
            assert one["steps"] >= 50
