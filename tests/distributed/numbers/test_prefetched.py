# SPDX-License-Identifier: Apache-2.0
"""sok.prefetch_lookups: the numbers without it, one exchange less in a step, errors in theirs."""

import numpy as np
import pytest

from tests.distributed.launch import launched_once, reports, run_ranks

STEPS, BAD_STEP = 6, 3


@launched_once
def reported(num_ranks):
    return reports(run_ranks("numbers.prefetched", num_ranks))


@pytest.fixture(
    scope="module",
    params=[1, 2, pytest.param(4, marks=pytest.mark.thorough)],
    ids="{} ranks".format,
)
def ranks(request):
    return reported(request.param)


def test_the_numbers_are_those_without(ranks):
    for rank in ranks:
        plain, prefetched = rank["plain"], rank["prefetched"]
        assert plain["seen"][-1] == prefetched["seen"][-1] == "OutOfRangeError"
        assert len(prefetched["seen"]) == STEPS + 1
        np.testing.assert_array_equal(prefetched["seen"][:-1], plain["seen"][:-1])
        for ours, theirs in zip(prefetched["rows"], plain["rows"]):
            for part, expected in zip(ours, theirs):
                np.testing.assert_array_equal(part, expected)


def test_a_step_makes_no_keys_distinct_and_exchanges_none(ranks):
    keys = {"SokDistinctKeys", "SokExchangeKeys"}
    for rank in ranks:
        assert rank["prefetched"]["ops"] & keys == set()
        assert rank["plain"]["ops"] & keys == (keys if len(ranks) > 1 else {"SokDistinctKeys"})


def test_a_wrong_batch_fails_its_step_on_all_ranks(ranks):
    for number, rank in enumerate(ranks):
        is_bad = number == len(ranks) - 1
        for step, seen in enumerate(rank["bad bag"]["seen"]):
            kind = seen if isinstance(seen, str) else None
            if step == BAD_STEP:
                # The other lookup of the bad rank may fail first, by a rank that has heard of it.
                assert kind == "UnknownError" or (is_bad and kind == "InvalidArgumentError")
            else:
                assert kind == {STEPS: "OutOfRangeError"}.get(step)


def test_a_full_table_fails_the_step_that_fills_it(ranks):
    for rank in ranks:
        seen = [each if isinstance(each, str) else None for each in rank["full"]["seen"]]
        assert seen[:BAD_STEP] == [None] * BAD_STEP and seen[-1] == "OutOfRangeError"
        assert seen[BAD_STEP] in ("ResourceExhaustedError", "UnknownError")
        assert seen[BAD_STEP + 1 : -1] == [None] * (STEPS - BAD_STEP - 1)
    failed = [rank["full"]["seen"][BAD_STEP] for rank in ranks]
    assert "ResourceExhaustedError" in failed


def test_sessions_of_one_graph(ranks):
    """The first ends with prefetched batches that no step has taken."""
    for rank in ranks:
        early, whole = rank["sessions"]
        np.testing.assert_array_equal(whole, rank["plain"]["seen"][:-1])
        np.testing.assert_array_equal(early, rank["plain"]["seen"][:2])


def test_says_who_makes_the_batches(ranks):
    for rank in ranks:
        assert "tf.train.start_queue_runners" in rank["without start"]
