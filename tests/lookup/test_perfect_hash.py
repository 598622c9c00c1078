# SPDX-License-Identifier: Apache-2.0
"""The perfect hash of served tables."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.lookup import perfect_hash
from sok_compat.lookup.perfect_hash import find_perfect_hash

RANDOM = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 20_000)
KEYS = {
    "none": [],
    "zero": [0],
    "ends": [-(2**63), 2**63 - 1, -1, 0],
    "ascending": np.arange(5000),
    "multiples": np.arange(-2500, 2500) * 2**50,
    "random": RANDOM,
    **{str(number): RANDOM[:number] for number in (2, 3, 5, 9, 40, 300)},
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_each_key_has_a_slot_of_its_own(keys):
    keys = np.array(keys, np.int64)
    found, slots = find_perfect_hash(keys)
    assert sorted(slots) == list(range(keys.size))
    np.testing.assert_array_equal(found.slots_of(tf.constant(keys)), slots)
    others = found.slots_of(tf.constant(RANDOM[::-1] + 1)).numpy()
    assert others.min() >= 0 and others.max() < max(keys.size, 1)


def test_equal_keys_have_none():
    with pytest.raises(ValueError, match="no perfect hash of 3 keys"):
        find_perfect_hash(np.array([5, 7, 5]))


def test_chosen_keys_have_one():
    """For each seed of a generator that all processes share, two keys have one bucket and one first
    slot."""
    keys = []
    for number, seed in enumerate(np.random.default_rng(0).integers(2**63, size=100)):
        for mixed in ((number << 40) + 2, (number << 40) + 3):
            for multiplier in reversed(perfect_hash._MULTIPLIERS):
                mixed = mixed * pow(multiplier, -1, 2**64) % 2**64
                mixed ^= mixed >> 32
            keys.append(mixed ^ int(seed))
    keys = np.array(keys, np.uint64).astype(np.int64)
    _, slots = find_perfect_hash(keys)
    assert sorted(slots) == list(range(keys.size))
