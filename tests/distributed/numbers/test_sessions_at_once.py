# SPDX-License-Identifier: Apache-2.0
"""Sessions and threads whose steps each rank runs in an order of its own."""

import pytest

from tests.distributed.launch import reports, run_ranks


def test_each_lookup_meets_its_own():
    for rank in reports(run_ranks("numbers.sessions", 2)):
        assert rank["two graphs"] == rank["one graph"] == [[1.0], [2.0]]
        assert rank["two fetches"] == [[1.0], [1.0]]


@pytest.mark.thorough
def test_lookups_fail_where_one_rank_alone_initializes_again(tmp_path):
    """Until all ranks have, or a checkpoint is restored; saves go on."""
    for alone, refused, by_all, again, restored in reports(
        run_ranks("numbers.sessions", 2, "again", str(tmp_path / "model"))
    ):
        assert (alone, by_all, restored) == ([1.0], [3.0], [3.0])
        for message, times in ((refused, 1), (again, 2)):
            assert (
                f"rank 1 has 'initialized table Table again after lookups, times: {times}"
                in message
            )


def test_initializers_on_all_ranks_follow_a_step_that_failed_on_one():
    (past_it, *of_rank_0), (message, *of_rank_1) = reports(
        run_ranks("numbers.sessions", 2, "failed")
    )
    assert "rank 1 is past it" in past_it
    assert "no rows today" in message
    assert of_rank_0 == of_rank_1 == [[3.0], [4.0]]


@pytest.mark.parametrize("num_ranks", [2, pytest.param(4, marks=pytest.mark.thorough)])
def test_an_op_that_fails_on_one_rank_while_rows_come_fails_its_step_alone(num_ranks):
    *others, last = reports(run_ranks("numbers.sessions", num_ranks, "beside"))
    for rank in (*others, last):
        assert rank[::2] == [True] * len(rank[::2])
    assert all("no batch today" in seen for seen in last[1::2])
    for rank in others:
        of_failed = [seen for seen in rank[1::2] if seen is not True]
        assert of_failed
        assert all(f"rank {num_ranks - 1} failed in this step" in seen for seen in of_failed)


@pytest.mark.thorough
@pytest.mark.parametrize("step", [0, 1])
def test_a_step_that_one_rank_skips_meets_no_other_session(step):
    """Steps of other numbers of one session may meet; a rank that has skipped one is behind."""
    ranks = run_ranks("numbers.sessions", 2, step, environment={"SOK_STALL_TIMEOUT_SECONDS": 3})
    skipped = False
    for rank in reports(ranks):
        for number, of_session in enumerate(rank, 1):
            assert all(seen in ([number], "UnknownError", "ValueError") for seen in of_session)
            assert all(seen == [number] for seen in of_session[:step])
            assert [number] in of_session or "UnknownError" in of_session
            skipped = skipped or "ValueError" in of_session
    assert skipped


def test_ranks_that_read_the_same_rows_are_told_once():
    """By rank 0; not of rows that a script does not read, nor of evaluations."""
    first, second = reports(run_ranks("numbers.same_rows", 2))
    (message,) = first.pop("same rows")
    assert message.startswith("ranks 0, 1 read the same rows, as they look up the same keys")
    assert "dataset.shard(hvd.size(), " in message
    assert not any(first.values()) and not any(second.values())
