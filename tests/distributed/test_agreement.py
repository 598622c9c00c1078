# SPDX-License-Identifier: Apache-2.0
"""Running what sok.Init returned fails on every rank, naming what differs, unless all agree."""

import functools

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
}


@functools.cache
def launched():
    """One launch tries all differences."""
    return run_ranks("agreement", NUM_RANKS)


@pytest.mark.parametrize("what", WORDS)
def test_says_what_differs(what):
    for rank in reports(launched()):
        message = rank["messages"][what]
        assert message is not None and "the ranks disagree" in message
        assert all(word in message for word in WORDS[what]), message


@pytest.mark.parametrize("what", ["batch", "dim", "capacity", "initializer", "seed"])
def test_eager_mode_says_what_differs(what):
    for rank in reports(launched()):
        message = rank["eager"][what]
        assert message is not None and "the ranks disagree" in message
        words = [word.rpartition("_1: ")[-1] for word in WORDS[what]]  # names count on
        assert all(word in message for word in words), message


def test_a_seed_that_is_not_given_is_the_same_everywhere():
    first, *others = reports(launched())
    for rank in others:
        assert rank["seed"] == first["seed"]
        for ours, theirs in zip(rank["rows"], first["rows"]):
            np.testing.assert_array_equal(ours, theirs)
