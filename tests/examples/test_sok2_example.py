# SPDX-License-Identifier: Apache-2.0
"""The DLRM by SparseOperationKit 2 learns the same on one rank and on two, and resumes."""

import functools

import numpy as np
import pytest

from tests.distributed.launch import folder_of_tests, has_horovod, reports, run_ranks


@functools.cache
def results(num_ranks):
    path = f"{folder_of_tests('sok2_example')}/{num_ranks}"
    environment = {"SOK_TEST_EAGER": "1"}
    return reports(run_ranks("sok2.example", num_ranks, path, environment=environment))


def test_learns_and_resumes():
    ((losses, resumed),) = (each.values() for each in results(1))
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])
    assert np.mean(resumed) < 0.9 * np.mean(losses[:5])


@pytest.mark.skipif(not has_horovod(), reason="Horovod is not installed: run `make horovod`")
def test_two_ranks_learn_the_same():
    ((losses, resumed),) = (each.values() for each in results(1))
    for rank in results(2):
        np.testing.assert_allclose(rank["losses"], losses, rtol=1e-3)
        np.testing.assert_allclose(rank["resumed"], resumed, rtol=1e-2)
