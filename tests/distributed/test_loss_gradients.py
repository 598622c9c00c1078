# SPDX-License-Identifier: Apache-2.0
"""Gradients through Horovod's collectives, of ranks that train as one process."""

import functools

import numpy as np
import pytest

from tests.distributed.launch import has_horovod, reports, run_ranks

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not has_horovod(), reason="Horovod is not installed: run `make horovod`"),
]
CASES = [
    "broadcast", "gathered", "gathered_in_groups", "scattered", "scattered_means",
    "scattered_in_groups", "exchanged", "means_with_weights", "means_with_random_weights",
    "groups_of_means", "squares_of_sums", "sums_of_quotients", "in_branches", "in_loops",
    "sums_of_some", "means_of_some", "gathered_of_some",
]  # fmt: skip


@functools.cache
def ranks():
    """[rank] of what it reported."""
    environment = {"HOROVOD_DYNAMIC_PROCESS_SETS": "1"}
    return reports(run_ranks("loss_gradients", 3, environment=environment))


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_one_process_with_all_losses(case):
    for rank in ranks():
        found, expected = rank["gradients"][case]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_all_cases_are_compared():
    assert list(ranks()[0]["gradients"]) == CASES


def test_reductions_without_a_gradient_are_refused():
    for rank in ranks():
        for text, name in zip(rank["refused"], ("Max", "Product")):
            assert f"which reduces by hvd.{name}: only hvd.Sum and hvd.Average have one" in text
