# SPDX-License-Identifier: Apache-2.0
"""The global norm over all ranks: clipped gradients are those of one process, the same on all."""

import functools

import numpy as np
import pytest

from tests.distributed.launch import reports, run_ranks

pytestmark = pytest.mark.thorough

TOLERANCE = dict(rtol=1e-5, atol=1e-6)
SCRIPTS = [
    "in a session",
    "eager",
    "in a function",
    "forward in a function",
    "gradients as arguments",
    "by an optimizer",
    "with a distributed tape",
]


@functools.cache
def launched(num_ranks):
    """One launch runs all scripts."""
    return run_ranks("numbers.clipping", num_ranks, timeout=300, environment={"SOK_TEST_EAGER": 1})


@pytest.mark.parametrize("script", SCRIPTS)
def test_two_ranks_equal_one(script):
    ((norms, dense, tables),) = [rank[script] for rank in reports(launched(1))]
    assert min(norms) > 0.5  # each step is clipped
    ranks = [rank[script] for rank in reports(launched(2))]
    for our_norms, our_dense, _ in ranks:
        np.testing.assert_allclose(our_norms, norms, **TOLERANCE)
        for ours, expected, first in zip(our_dense, dense, ranks[0][1]):
            np.testing.assert_allclose(ours, expected, **TOLERANCE)
            np.testing.assert_array_equal(ours, first)  # no rank drifts away
    for number, expected in enumerate(tables):
        rows = {key: row for rank in ranks for key, row in rank[2][number].items()}
        assert rows.keys() == expected.keys()
        for key, row in rows.items():
            np.testing.assert_allclose(row, expected[key], **TOLERANCE)


@pytest.mark.parametrize("num_ranks", [1, 2], ids="{} ranks".format)
def test_a_norm_in_a_branch_is_that_of_a_rank(num_ranks):
    """The other ranks may not take the branch."""
    for rank in reports(launched(num_ranks)):
        assert ["this rank's rows" in message for message in rank["warned"]] == [True] * (
            num_ranks > 1
        )
