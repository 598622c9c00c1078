# SPDX-License-Identifier: Apache-2.0
"""What all ranks see when eager code goes wrong on one; the calls that follow meet again."""

import functools

import pytest

from tests.distributed.launch import reports, run_ranks

NUM_RANKS = 3
STALL_SECONDS = 4
USERS, ITEMS = "EmbeddingVariable", "EmbeddingVariable_1"  # how the layers' tables are named
STALLED = ["waited 4 s for rank 2", "SOK_STALL_TIMEOUT_SECONDS"]
WORDS = {  # what the other ranks say
    "raises between lookups": [f"exchange {ITEMS}/", f"rank 2 looks up {USERS} in call"],
    "full table": [f"exchange {USERS}/", "rank 2 failed in this step", "is full"],
    "full table in a function": ["rank 2 failed in this step"],
    "no gradient": ["SokExchangeValues", "rank 2 is past it", "has ended there without it"],
    "other order": [f"exchange {USERS}/", f"rank 2 looks up {ITEMS} in call"],
    "other function": ["waited", "for rank", "SOK_STALL_TIMEOUT_SECONDS", "waits for"],
    "late": [f"exchange {USERS}/", *STALLED],
    "missing dump": ["the ranks restore different dumps", "rank 2", "missing"],
    "left": ["rank 2 has left", "same number of steps"],
}


# What they say where rank 2 has gone on to its next call before their own time is over.
GONE_ON = {"other function": [f"rank 2 looks up <lambda>/{USERS} in call", "in the same order"]}


@functools.cache
def launched():
    """One launch tries them all."""
    environment = {"SOK_STALL_TIMEOUT_SECONDS": STALL_SECONDS, "SOK_TEST_EAGER": 1}
    return run_ranks("failures.eager_failures", NUM_RANKS, timeout=200, environment=environment)


@pytest.mark.thorough
@pytest.mark.parametrize("what", WORDS)
def test_the_others_say_what_went_wrong(what):
    for rank in reports(launched())[:-1]:
        errors, _ = rank[what]
        kind, message, seconds = errors[-1]
        assert kind == ("InvalidArgumentError" if what == "missing dump" else "UnknownError")
        accepted = [WORDS[what], *([GONE_ON[what]] if what in GONE_ON else [])]
        assert any(all(word in message for word in words) for words in accepted), message
        assert seconds < STALL_SECONDS + 60  # not for ever, on a slow machine


@pytest.mark.parametrize("what", [what for what in WORDS if what != "left"])
def test_calls_that_follow_meet_again(what):
    for rank in reports(launched()):
        _, after = rank[what]
        assert after == [None, None]


def test_the_rank_that_fails_has_its_own_error():
    errors = {what: errors for what, (errors, _) in reports(launched())[-1].items()}
    assert errors["raises between lookups"][0][:2] == ("ScriptError", "the script's own mistake")
    assert f"looks up {ITEMS} in call" in errors["raises between lookups"][1][1]
    for what in ("full table", "full table in a function"):
        kind, message, _ = errors[what][0]
        assert kind == "ResourceExhaustedError" and "is full" in message
    assert f"looks up {USERS} in call" in errors["other order"][0][1]
    assert errors["no gradient"] == [None]
