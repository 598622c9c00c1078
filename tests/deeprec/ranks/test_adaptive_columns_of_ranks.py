# SPDX-License-Identifier: Apache-2.0
"""Adaptive columns on several ranks give the numbers of one rank."""

import numpy as np
import pytest

from tests.distributed.launch import has_horovod, launched_once, reports, run_ranks

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not has_horovod(), reason="Horovod is not installed: run `make horovod`"),
]


@launched_once
def _trained(num_ranks):
    return reports(run_ranks("deeprec.adaptive_columns", num_ranks, timeout=300))


@pytest.mark.parametrize("num_ranks", [2, 4])
@pytest.mark.parametrize("num_parts, filter_freq", [(None, 0), (2, 0), (None, 2)])
def test_ranks_train_as_one(num_ranks, num_parts, filter_freq):
    (wanted,) = (rank[num_parts, filter_freq] for rank in _trained(1))
    for rank in _trained(num_ranks):
        for ours, theirs in zip(rank[num_parts, filter_freq], wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    assert np.ptp(wanted[-2]) > 0.1
