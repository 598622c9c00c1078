# SPDX-License-Identifier: Apache-2.0
"""What ranks see of one that connects late, never, or is gone; and of one that holds Python's lock
for long, which is none of these."""

import functools
import math
import os

import pytest

from tests.distributed.launch import reports, run_ranks

NUM_RANKS = 2
STALL_SECONDS = 8
ENVIRONMENT = {"SOK_STALL_TIMEOUT_SECONDS": STALL_SECONDS}


@functools.cache
def launched(mode):
    return run_ranks("failures.connecting", NUM_RANKS, mode, timeout=200, environment=ENVIRONMENT)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "mode,words",
    [
        ("never", [f"waited {STALL_SECONDS} s (SOK_STALL_TIMEOUT_SECONDS) for rank 1 to connect"]),
        ("gone", ["the ranks cannot connect", "rank 1", "Horovod says"]),
    ],
)
def test_init_fails_without_a_rank(mode, words):
    (seen,) = reports(launched(mode)[:1])
    assert all(word in seen["error"] for word in words), seen["error"]
    assert "\n" not in seen["error"] and "Graph execution" not in seen["error"]
    assert seen["seconds"] < STALL_SECONDS + 60  # not for ever, on a slow machine


def test_ranks_whose_environment_differs_do_not_connect():
    for seen in reports(launched("unlike")):
        found = "SOK_WIRE_DTYPE is 'float16' on rank 0, 'bfloat16' on rank 1. Set it"
        assert found in seen["error"], seen["error"]
        assert "lost" not in seen["error"] and seen["seconds"] < STALL_SECONDS


@pytest.mark.thorough
def test_a_rank_may_be_late_and_hold_the_lock():
    for seen in reports(launched("late")):
        assert seen["rows of a late one"] == 2
        assert seen["rows after a long call"] == 3
        assert seen["rows of the next step"] == 4
        assert seen["forked child"] == 3


def test_a_step_waits_for_a_rank_that_holds_the_lock_and_fails_alone():
    first, last = (seen["in a step"] for seen in reports(launched("late")))
    assert "rank 1" in first and "SOK_STALL_TIMEOUT_SECONDS" in first, first
    assert "rank 0 failed in this step" in last, last


@pytest.mark.thorough
def test_loops_of_ops_share_the_processors_with_other_ranks():
    for seen in reports(launched("late")):
        assert seen["most threads"] == math.ceil(len(os.sched_getaffinity(0)) / NUM_RANKS)


def test_ranks_that_end_well_say_nothing_of_it():
    """Whichever ends first, and whoever has called hvd.init() how often."""
    for rank in launched("late"):
        assert "exchanges between ranks have ended" not in rank.output
