# SPDX-License-Identifier: Apache-2.0
"""Ops of lookups that stand side by side in a step are joined: the same numbers, to the bit."""

import functools

import numpy as np
import pytest

from tests.distributed.launch import reports, run_ranks

NUM_RANKS = [2, pytest.param(4, marks=pytest.mark.thorough)]
STEPS = ["side_by_side", "in_a_branch", "before_a_loop", "one_after_another"]
EXCHANGES = ["SokExchangeKeys", "SokExchangeRows", "SokExchangeGradients"]


@functools.cache
def seen(num_ranks, are_joined, is_eager=False):
    """[what each rank has reported]"""
    environment = {"SOK_JOIN_LOOKUPS": are_joined, "SOK_STALL_TIMEOUT_SECONDS": 90}
    if is_eager:
        environment["SOK_TEST_EAGER"] = 1
    arguments = ["errors"] if are_joined else []
    return reports(run_ranks("joined_lookups", num_ranks, *arguments, environment=environment))


def check_same(joined, apart):
    for one, other in zip(joined, apart):
        assert len(one) == len(other)
        for left, right in zip(one, other):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("num_ranks", NUM_RANKS)
@pytest.mark.parametrize("steps", [*STEPS, "two_gradients", "in_parts"])
def test_joined_and_apart_give_the_same_numbers(steps, num_ranks):
    for joined, apart in zip(seen(num_ranks, 1), seen(num_ranks, 0)):
        check_same(joined[steps][0], apart[steps][0])


@pytest.mark.parametrize("num_ranks", NUM_RANKS)
def test_functions_of_eager_code_give_the_same_numbers(num_ranks):
    for joined, apart in zip(seen(num_ranks, 1, True), seen(num_ranks, 0, True)):
        check_same(joined["function"][0], apart["function"][0])
        steps = len(joined["function"][0])  # of three lookups, with three exchanges
        assert (joined["function"][1], apart["function"][1]) == (3 * steps, 9 * steps)


def test_lookups_side_by_side_are_one_request_of_each_exchange():
    for joined, apart in zip(seen(2, 1), seen(2, 0)):
        for op in EXCHANGES:
            assert joined["side_by_side"][1][op] == 1
            assert apart["side_by_side"][1][op] == 5
        assert sum(joined["side_by_side"][1].values()) < sum(apart["side_by_side"][1].values()) / 2


def test_what_may_not_run_with_the_others_stays_apart():
    for rank in seen(2, 1):
        branch, loop, row = (rank[steps][1] for steps in STEPS[1:])
        assert [branch[op] for op in EXCHANGES[:2]] == [2, 2]  # that in the branch, and all others
        assert [loop[op] for op in EXCHANGES] == [1, 1, 5]
        assert [row[op] for op in EXCHANGES[:2]] == [5, 5]


def test_one_process_has_nothing_to_join():
    (rank,) = seen(1, 1)
    assert not any(op.startswith("SokExchange") for op in rank["side_by_side"][1])
    assert rank["side_by_side"][1]["SokFindRows"] == 5


def test_ranks_that_run_other_lookups_are_told_at_once():
    for rank in seen(2, 1):
        first, second = rank["errors"]
        assert "5 lookups in one step" in first and "2 lookups in one step" in first, first
        assert "different lookups" in second or "lookups in one step" in second, second
        assert "SOK_STALL_TIMEOUT_SECONDS" not in first + second
