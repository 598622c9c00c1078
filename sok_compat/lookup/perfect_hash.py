# SPDX-License-Identifier: Apache-2.0
"""A perfect hash of keys that do not change, found by NumPy and computed by TensorFlow's own ops.

Of n keys each has a slot of its own in [0, n). A key's hash gives a bucket, of n, and a first slot;
the bucket's displacement, added to the first slots of its keys, takes them to their own. Buckets
are given displacements at random, those with most keys first, until all of their slots are free;
buckets of one key take what is left. (Fox, Chen and Heath, "A faster algorithm for constructing
minimal perfect hash functions", 1992.)
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

_MULTIPLIERS = -7046029254386353131, -4658895280553007687  # odd, of bits at random
_BITS = 31  # of a hash for a slot: times a number of keys it fits in 63
_MOST_SEEDS, _MOST_ROUNDS = 100, 400  # one seed in two finds no hash, and a few keys need more


@dataclasses.dataclass(frozen=True, eq=False)
class PerfectHash:
    """The slots of keys.

    seed: int64 scalar.
    displacements: int32 [n], of buckets; [1] for no keys.
    """

    seed: Any
    displacements: Any

    def slots_of(self, keys: tf.Tensor) -> tf.Tensor:
        """Returns the slots int64 [m] of keys int64 [m]; a key without one gets that of another."""
        num_slots = tf.size(self.displacements, tf.int64)
        buckets, first = _buckets_and_first_slots(keys, self.seed, num_slots, tf.bitwise)
        moved = first + tf.cast(tf.gather(self.displacements, buckets), tf.int64)
        return tf.where(moved < num_slots, moved, moved - num_slots)


def find_perfect_hash(keys: np.ndarray) -> tuple[PerfectHash, np.ndarray]:
    """Returns (a PerfectHash of arrays, the slot of each key).

    Args:
      keys: int64 [n], distinct.

    Raises:
      ValueError: there is none, as for 2^31 keys.
    """
    if not keys.size:
        return PerfectHash(np.int64(0), np.zeros(1, np.int32)), np.zeros(0, np.int64)
    random = np.random.default_rng()  # so that nobody can choose keys that have none
    for seed in random.integers(2**63, size=_MOST_SEEDS):
        buckets, first = _buckets_and_first_slots(keys, seed, keys.size, np)
        displacements = _displacements(buckets, first, random)
        if displacements is not None:
            return PerfectHash(seed, displacements), (first + displacements[buckets]) % keys.size
    raise ValueError(f"no perfect hash of {keys.size} keys was found: stock_ops needs fewer")


def _buckets_and_first_slots(keys, seed, num_slots, bits):
    """Of arrays with `bits` numpy, of tensors with tf.bitwise."""

    def shifted(words, by, mask):  # right_shift repeats the sign
        return bits.bitwise_and(bits.right_shift(words, np.int64(by)), np.int64(mask))

    mixed = bits.bitwise_xor(keys, seed)
    for multiplier in _MULTIPLIERS:
        mixed = bits.bitwise_xor(mixed, shifted(mixed, 32, 2**32 - 1)) * multiplier
    return [
        bits.right_shift(shifted(mixed, by, 2**_BITS - 1) * num_slots, np.int64(_BITS))
        for by in (64 - _BITS, 32 - _BITS)
    ]


def _displacements(buckets, first, random):
    """int32 [n], or None if keys of a bucket have one first slot, or a bucket finds no place."""
    num_slots = buckets.size
    order = np.argsort(buckets * num_slots + first)
    buckets, first = buckets[order], first[order]
    is_same = buckets[1:] == buckets[:-1]
    if np.any(is_same & (first[1:] == first[:-1])):
        return None
    begins = np.flatnonzero(np.append(True, ~is_same))
    sizes = np.diff(np.append(begins, num_slots))
    displacements = np.zeros(num_slots, np.int32)
    is_free = np.ones(num_slots, bool)
    taken_by = np.empty(num_slots, np.int64)
    for size in range(sizes.max(), 1, -1):
        waiting = begins[sizes == size]
        for _ in range(_MOST_ROUNDS):
            tried = random.integers(num_slots, size=waiting.size)
            slots = (first[waiting[:, np.newaxis] + np.arange(size)] + tried[:, np.newaxis]) % (
                num_slots
            )
            numbers = np.flatnonzero(is_free[slots].all(axis=1))
            taken_by[slots[numbers]] = numbers[:, np.newaxis]  # of several the last one
            has_won = (taken_by[slots[numbers]] == numbers[:, np.newaxis]).all(axis=1)
            numbers = numbers[has_won]
            is_free[slots[numbers]] = False
            displacements[buckets[waiting[numbers]]] = tried[numbers]
            waiting = np.delete(waiting, numbers)
            if not waiting.size:
                break
        else:
            return None
    alone = begins[sizes == 1]
    displacements[buckets[alone]] = (np.flatnonzero(is_free) - first[alone]) % num_slots
    return displacements
