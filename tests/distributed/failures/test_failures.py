# SPDX-License-Identifier: Apache-2.0
"""What the other ranks see when one ends, hangs or fails a step."""

import functools
import re

import pytest

from tests.distributed.launch import reports, run_ranks

NUM_RANKS = 3
STALL_SECONDS = 4
ENVIRONMENT = {
    "SOK_STALL_TIMEOUT_SECONDS": STALL_SECONDS,
    "HOROVOD_GLOO_TIMEOUT_SECONDS": 2 * STALL_SECONDS,  # after that Horovod itself gives up
}


GLOO_SECONDS = 2  # less than STALL_SECONDS
IN_ONE_LAUNCH = ("bad steps", "none")  # the ranks go on after the first


# Behind a mode: rounds do not go through shared memory, or only within hosts of ranks {0, 2}, {1}.
BY_HOROVOD = "by Horovod"
BY_BOTH = "by both"
CARRIERS = {BY_HOROVOD: {"SOK_SHARED_MEMORY": 0}, BY_BOTH: {"SOK_TEST_HOSTS": 2}}


def without_carrier(mode):
    """(the mode, what carries rounds; empty: the default)."""
    carrier = next((carrier for carrier in CARRIERS if mode.endswith(carrier)), "")
    return mode.removesuffix(carrier).strip(), carrier


@functools.cache
def launched(*modes):
    environment = {**ENVIRONMENT, **CARRIERS.get(without_carrier(modes[0])[1], {})}
    if "stop early" in modes[0]:
        environment["HOROVOD_GLOO_TIMEOUT_SECONDS"] = GLOO_SECONDS
    workers = [without_carrier(mode)[0] for mode in modes]
    return run_ranks("failures.failures", NUM_RANKS, *workers, timeout=200, environment=environment)


def seen(mode, ranks=slice(None)):
    """What these ranks saw of the failure."""
    launch = launched(*IN_ONE_LAUNCH) if mode in IN_ONE_LAUNCH else launched(mode)
    return [report[without_carrier(mode)[0]] for report in reports(launch[ranks])]


@pytest.mark.parametrize(
    "mode,words",
    [
        ("fewer", ["rank 2 has left", "same number of steps"]),
        ("raise", ["rank 2 has left", "raised an exception"]),
        ("check", ["rank 2"]),  # an op of the script fails between forward and backward pass
        ("kill", ["lost rank 2", "process of rank 2 has ended"]),
        # Horovod says so, or does not before the stall timeout, where the machine is busy.
        (f"kill {BY_HOROVOD}", ["lost rank 2"]),
        pytest.param(f"check {BY_HOROVOD}", ["rank 2"], marks=pytest.mark.thorough),
        pytest.param("stop", ["lost rank 2"], marks=pytest.mark.thorough),
        pytest.param(f"fewer {BY_HOROVOD}", ["rank 2 has left"], marks=pytest.mark.thorough),
        pytest.param(f"stop {BY_HOROVOD}", ["lost rank 2"], marks=pytest.mark.thorough),
        pytest.param(f"stop early {BY_HOROVOD}", ["lost rank 2"], marks=pytest.mark.thorough),
    ],
)
def test_a_rank_that_is_gone_ends_the_step_of_the_others(mode, words):
    for rank in seen(mode, slice(-1)):
        assert rank["step"] == 6
        assert rank["kind"] == "UnknownError"
        assert "exchange " in rank["error"]
        assert all(word in rank["error"] for word in words), rank["error"]
        assert rank["seconds"] < STALL_SECONDS + 60  # not for ever, on a slow machine


@pytest.mark.thorough
def test_horovods_own_timeout_is_named_by_a_rank_that_waited_so_long():
    """The other one may have come later: Horovod then ends it by that one's error, not its own."""
    errors = [rank["error"] for rank in seen(f"stop early {BY_HOROVOD}", slice(-1))]
    named = [f"HOROVOD_GLOO_TIMEOUT_SECONDS={GLOO_SECONDS}" in error for error in errors]
    assert any(named), errors
    for is_named, error in zip(named, errors):
        assert is_named or "Horovod has been shut down" in error, error


@pytest.mark.thorough
def test_a_killed_rank_of_this_host_and_of_another():
    mode = f"kill {BY_BOTH}"
    beside, elsewhere = seen(mode, slice(-1))
    assert "lost rank 2: ended or stopped" in beside["error"]
    assert "lost rank 2 on host host0: no sign of life" in elsewhere["error"], elsewhere["error"]
    assert "go through shared memory and Horovod" in launched(mode)[0].output


@pytest.mark.parametrize("mode", ["kill", f"kill {BY_HOROVOD}"])
def test_a_killed_rank_is_one_line(mode):
    """On each of the others, in the log: who is gone, and how that was seen, no stack trace."""
    seen(mode, slice(-1))
    for rank in launched(mode)[:-1]:
        lines = [line for line in rank.output.splitlines() if "exchanges between ranks" in line]
        assert len(lines) == 1 and "have ended: lost rank 2: ended or stopped; " in lines[0]
        assert len(lines[0]) < 500
        assert "most recent call last" not in rank.output and 'File "' not in rank.output


def test_a_step_that_fails_on_one_rank_fails_on_all_and_training_goes_on():
    for number, rank in enumerate(seen("bad steps")):
        failed = [step for step, error in enumerate(rank["errors"]) if error]
        is_last = number == NUM_RANKS - 1
        assert failed == ([2, 4, 6] if is_last else [2, 4, 6, 7])
        for step, words in {2: "is full", 4: "order"}.items():
            error = rank["errors"][step]
            assert words in error
            assert is_last or "rank 2 failed in this step" in error
        for step in () if is_last else (6, 7):
            assert "rank 2 is past it" in rank["errors"][step]
            assert "has ended there without it" in rank["errors"][step]


@pytest.mark.parametrize(
    "mode", ["interrupt", pytest.param(f"interrupt {BY_HOROVOD}", marks=pytest.mark.thorough)]
)
def test_ctrl_c_ends_all_ranks(mode):
    ranks = launched(mode)
    assert all(rank.exit_code not in (0, None) for rank in ranks), ranks
    # Ranks end one after the other; those that are told so first say that.
    ends = [re.search("KeyboardInterrupt|rank . has left|lost rank .", r.output) for r in ranks]
    assert all(ends) and "KeyboardInterrupt" in [end[0] for end in ends], ranks


def test_the_end_is_quick():
    for rank, last in zip(launched(*IN_ONE_LAUNCH), seen("none")):
        assert last["error"] is None and last["step"] == 11
        assert rank.ended - last["finished"] < 60  # not for ever, on a slow machine
