# SPDX-License-Identifier: Apache-2.0
"""Keys that are hard on the index: extremes, neighbours, and a crowd that wants one bucket."""

import functools

import numpy as np


def _hashes(keys):
    """As HashKey of ops/base/hash.h."""
    value = keys.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@functools.cache
def crowded_keys(key_dtype):
    """About 250 distinct keys of the dtype, as Python numbers."""
    limits = np.iinfo(key_dtype)
    candidates = np.arange(1_000_000, dtype=np.int64)
    hashes = _hashes(candidates)
    # The highest bits choose the home bucket: these keys share it up to 2^12 buckets.
    last_bucket = candidates[hashes >> np.uint64(52) == (1 << 12) - 1]
    some_bucket = candidates[hashes >> np.uint64(52) == 77]
    extremes = [limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1, limits.max // 2 + 1]
    keys = [*map(int, extremes), *last_bucket[:100].tolist(), *some_bucket[:100].tolist()]
    return sorted({*keys, *range(50)})
