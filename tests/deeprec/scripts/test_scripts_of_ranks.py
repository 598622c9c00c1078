# SPDX-License-Identifier: Apache-2.0
"""Horovod's broadcasts, queues of work and counts of rows, in scripts of two ranks."""

import collections

import numpy as np
import pytest

from tests.distributed.launch import has_horovod, launched_once, reports, run_ranks

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not has_horovod(), reason="Horovod is not installed: run `make horovod`"),
]


@launched_once
def ranks():
    return reports(run_ranks("deeprec.deeprec_scripts", 2, timeout=200))


def test_a_broadcast_gives_ordinary_variables_and_their_slots_of_rank_0():
    first, second = (rank["broadcast"] for rank in ranks())
    names = set(first["before"]["ordinary"])
    assert {
        "global_step", "beta1_power", "Adam/weights", "Adam/weights/Adam_1", "Ftrl/weights/Ftrl",
        "AdamAsync/table/AdamAsync_2", "AdagradDecay/weights/AdagradDecay/decays",
        "Momentum/weights/Momentum", "AdamW/weights/AdamW",
    } <= names  # fmt: skip
    for name in names:
        expected = first["before"]["ordinary"][name]
        assert np.all(second["before"]["ordinary"][name] != expected)
        for rank in (first, second):
            np.testing.assert_array_equal(rank["after"]["ordinary"][name], expected, name)


def test_a_broadcast_leaves_rows_and_their_slots():
    for rank in ranks():
        before, after = rank["broadcast"]["before"], rank["broadcast"]["after"]
        for ours, same in zip(after["rows"], before["rows"]):
            assert ours.keys() == same.keys() and len(ours) > 0
            assert all(np.array_equal(ours[key], same[key]) for key in same)
        assert len(before["slots"]) == 10 and all(map(np.any, before["slots"]))
        for ours, same in zip(after["slots"], before["slots"]):
            np.testing.assert_array_equal(ours, same)


def test_a_hook_broadcasts_in_a_session():
    first, second = (rank["start"] for rank in ranks())
    assert all(np.array_equal(ours, same) for ours, same in zip(first, second))
    assert any(np.array_equal(value, [1, 2, 3]) for value in second)


def test_total_count_is_of_the_own_rows_and_can_be_summed():
    of_ranks = [rank["broadcast"]["after"] for rank in ranks()]
    keys = [set(seen["rows"][0]) for seen in of_ranks]
    assert not keys[0] & keys[1] and len(keys[0] | keys[1]) == 12
    for seen, own in zip(of_ranks, keys):
        assert seen["counts"] == [len(own), 3]
        assert seen["counts_of_all"] == [12, 6]


def test_summaries_of_rank_0_may_need_what_others_count():
    first, second = (rank["summaries"] for rank in ranks())
    counts = {step: value for step, tag, value in first if tag == "rows/all"}
    assert sorted(counts) == [1, 2, 3] and max(counts.values()) in (20, 30)
    assert {tag for _, tag, _ in first} == {"rows/mine", "rows/all"} and not second


@pytest.mark.parametrize("how", ["take", "input_dataset", "input_producer"])
def test_each_item_of_a_queue_goes_to_one_rank_in_each_epoch(how):
    of_ranks = [rank["work"][how] for rank in ranks()]
    assert collections.Counter(of_ranks[0] + of_ranks[1]) == dict.fromkeys("abcde", 2)
    in_order = [item for pair in zip(*of_ranks) for item in pair]
    assert sorted(in_order[:5]) == sorted(in_order[5:]) == list("abcde")
