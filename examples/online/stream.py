# SPDX-License-Identifier: Apache-2.0
"""Clicks whose cause drifts: what an item is worth turns within some seconds."""

import time

import numpy as np

NUM_SLOTS = 4  # items of a sample
NUM_ITEMS = 2000  # at a time
NEW_ITEMS_PER_SECOND = 20.0  # each takes the place of the oldest


class Stream:
    """Samples of any moment, of the same chances for all who know when it began.

    began: seconds since 1970.
    turn_seconds: until an item is worth again what it was.
    """

    def __init__(self, began, turn_seconds, seed):
        self._began, self._turn_seconds = began, turn_seconds
        self._numbers = np.random.default_rng(seed)

    def batch(self, size):
        """(items [size, NUM_SLOTS], clicks [size]) of now."""
        moment = time.time() - self._began
        oldest = int(moment * NEW_ITEMS_PER_SECOND)
        items = oldest + self._numbers.integers(0, NUM_ITEMS, [size, NUM_SLOTS])
        phases = items * 2.399963  # the golden angle: neighbours differ
        worth = np.sin(phases + 2 * np.pi * moment / self._turn_seconds)
        chances = 1 / (1 + np.exp(-2.0 * worth.sum(1)))
        return items, (self._numbers.random(size) < chances).astype(np.float32)
