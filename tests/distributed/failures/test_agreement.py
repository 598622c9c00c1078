# SPDX-License-Identifier: Apache-2.0
"""Running what sok.Init returned fails on every rank, naming what differs, unless all agree."""

import functools
import re

import numpy as np
import pytest

from tests.distributed.launch import reports, run_ranks

NUM_RANKS = 3
WORDS = {
    "batch": ["global_batch_size=12", "global_batch_size=24"],
    "dim": ["EmbeddingVariable_1: dim 8", "EmbeddingVariable_1: dim 9"],
    "capacity": ["capacity 20", "capacity 21"],
    "hash table": ["use_hashtable True", "use_hashtable False"],
    "key dtype": ["key_dtype int64", "key_dtype uint32"],
    "initializer": ["first value uniform -0.05 0.05", "first value constant 1.0"],
    "fewer layers": ["EmbeddingVariable_1", "nothing more"],
    "more layers": ["EmbeddingVariable_2", "nothing more"],
    "order": ["EmbeddingVariable: dim 4", "EmbeddingVariable: dim 8"],
    "seed": ["seed=5", "seed=6"],
    "no seed": ["seed=5", "seed=not given"],
    "wire dtype": ["wire_dtype=float32", "wire_dtype=float16"],
}


@functools.cache
def launched():
    """One launch tries all differences."""
    return run_ranks("failures.agreement", NUM_RANKS)


@pytest.mark.parametrize("what", WORDS)
def test_says_what_differs(what):
    for rank in reports(launched()):
        message = rank["messages"][what]
        assert message is not None and "the ranks disagree" in message
        assert all(word in message for word in WORDS[what]), message


@pytest.mark.parametrize("what", ["batch", "dim", "capacity", "initializer", "seed", "wire dtype"])
def test_eager_mode_says_what_differs(what):
    for rank in reports(launched()):
        message = rank["eager"][what]
        assert message is not None and "the ranks disagree" in message
        words = [word.rpartition("_1: ")[-1] for word in WORDS[what]]  # names count on
        assert all(word in message for word in words), message


LOOKUP_WORDS = {  # of ranks 0 and 1, of rank 2
    "dim": ["table own: dim 4,", "table own: dim 5,"],
    "key dtype": ["key_dtype int64", "key_dtype uint32"],
    "kind": ["use_hash_index True", "use_hash_index False"],
    "combiner": ["combiner sum'", "combiner mean'"],
    "initializer": ["first value", "first value constant 1.0"],
    "seed": ["seed", "seed 6,"],
    "wire dtype": ["wire_dtype float32", "wire_dtype bfloat16"],
}


def assert_names_both(error, words):
    kind, message = error
    assert kind == "InvalidArgumentError"
    first, last = words
    assert re.search(
        f"the ranks disagree: ranks 0, 1 have '.*{first}.*, rank 2 has '.*{last}", message
    )


@pytest.mark.parametrize("what", LOOKUP_WORDS)
def test_the_first_lookup_says_what_differs(what):
    """Also without sok.Init; no numbers, and no rank waits."""
    for rank in reports(launched()):
        assert_names_both(rank["lookups"][what], LOOKUP_WORDS[what])
        assert rank["same lookups"] is None


def test_combiners():
    """Where sok.Init's tensor is run, and of eager lookups."""
    for rank in reports(launched()):
        assert_names_both(rank["combiner"], ["combiner sum", "combiner mean"])
        assert_names_both(rank["eager lookup"], ["combiner sum", "combiner mean"])


def test_a_seed_that_is_not_given_is_the_same_everywhere():
    first, *others = reports(launched())
    for rank in others:
        assert rank["seed"] == first["seed"]
        for ours, theirs in zip(rank["rows"], first["rows"]):
            np.testing.assert_array_equal(ours, theirs)
