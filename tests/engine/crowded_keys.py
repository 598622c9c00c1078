# SPDX-License-Identifier: Apache-2.0
"""Keys that are hard on the index: extremes, neighbours, and a crowd that wants one bucket."""

import functools

import numpy as np

from sok_compat.engine import _engine


@functools.cache
def crowded_keys(key_dtype):
    """About 250 distinct keys of the dtype, as Python numbers."""
    limits = np.iinfo(key_dtype)
    candidates = np.arange(1_000_000, dtype=np.int64)
    hashes = _engine.hash_keys(candidates)
    # The highest bits choose the home bucket: these keys share it up to 2^12 buckets.
    last_bucket = candidates[hashes >> np.uint64(52) == (1 << 12) - 1]
    some_bucket = candidates[hashes >> np.uint64(52) == 77]
    extremes = [limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1, limits.max // 2 + 1]
    keys = [*map(int, extremes), *last_bucket[:100].tolist(), *some_bucket[:100].tolist()]
    return sorted({*keys, *range(50)})
