# SPDX-License-Identifier: Apache-2.0
"""hvd.allreduce beside lookups goes with their exchanges: the sums are Horovod's."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.launch import reports, run_ranks

NUM_RANKS = [2, pytest.param(4, marks=pytest.mark.thorough)]


@functools.cache
def seen(num_ranks, goes_along, is_eager=False):
    """[what each rank has reported]"""
    environment = {"SOK_ALLREDUCE": int(goes_along), "SOK_STALL_TIMEOUT_SECONDS": 90}
    if is_eager:
        environment["SOK_TEST_EAGER"] = 1
    arguments = ["errors"] if goes_along and num_ranks == 2 else []
    return reports(run_ranks("all_reduces", num_ranks, *arguments, environment=environment))


def check_sums(num_ranks, case, is_eager=False):
    """The bytes that sok_compat sent for it, by rank, of sums that are Horovod's and all ranks'."""
    ours, horovods = (
        [rank[case] for rank in seen(num_ranks, along, is_eager)] for along in (True, False)
    )
    for (values, _), (expected, sent) in zip(ours, horovods):
        assert sent == 0
        for left, right, of_first in zip(*map(tf.nest.flatten, (values, expected, ours[0][0]))):
            np.testing.assert_array_equal(left, of_first)
            assert np.shape(left) == np.shape(right)
            if num_ranks == 2:  # two numbers have one sum
                np.testing.assert_array_equal(left, right)
            np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)
    return [sent for _, sent in ours]


@pytest.mark.parametrize("num_ranks", NUM_RANKS)
@pytest.mark.parametrize(
    "case", ["sums_and_means", "in_pieces", "in_other_scopes", "after_the_lookup", "of_optimizer"]
)
def test_sums_beside_lookups_are_horovods(case, num_ranks):
    assert all(sent > 0 for sent in check_sums(num_ranks, case))


@pytest.mark.parametrize("num_ranks", NUM_RANKS)
def test_sums_in_functions_are_horovods(num_ranks):
    assert all(sent > 0 for sent in check_sums(num_ranks, "of_tape", is_eager=True))


@pytest.mark.parametrize("case", ["of_other_kinds", "without_lookups"])
def test_the_rest_is_left_to_horovod(case):
    assert check_sums(2, case) == [0, 0]


def test_two_ranks_send_what_they_have_once():
    for rank in seen(2, True):
        sums, sent = rank["sums_and_means"]
        one_list = sum(value.nbytes for value in sums[0][0])
        assert one_list * 12 < sent < one_list * 12 * 1.1  # four lists, three steps


@pytest.mark.thorough
def test_four_ranks_send_shares_of_a_large_tensor():
    for rank in seen(4, True):
        sums, sent = rank["sums_and_means"]
        one_list = sum(value.nbytes for value in sums[0][0])
        assert one_list * 12 * 1.5 < sent < one_list * 12 * 1.6  # 2 * (4 - 1) / 4 of all


def test_a_tensor_of_another_shape_and_a_failed_rank_are_named_on_all_ranks():
    for rank, reported in enumerate(seen(2, True)):
        (shapes, failed), after = reported["errors"]
        own = "[5,3]" if rank else "[3,5]"
        seen_here = f"rank {1 - rank} has others than those of this rank: {own}" in shapes
        assert seen_here or f"rank {1 - rank} failed in this step" in shapes, shapes
        assert "must have one shape on all ranks" in shapes, shapes
        assert ("the script's own error" if rank else "rank 1 failed in this step") in failed
        np.testing.assert_array_equal(after[0], seen(2, True)[0]["errors"][1][0])
