# SPDX-License-Identifier: Apache-2.0
"""Batches of keys like those of click logs."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Workload:
    """Zipf-distributed keys in [0, num_keys), the popular ones spread at random."""

    batch_size: int = 4096
    num_features: int = 26
    num_keys: int = 2_000_000
    exponent: float = 1.05
    num_batches: int = 32
    seed: int = 1

    def batches(self):
        """int64 [num_batches, batch_size, num_features]."""
        generator = np.random.default_rng(self.seed)
        weights = np.arange(1, self.num_keys + 1, dtype=np.float64) ** -self.exponent
        cumulative = np.cumsum(weights)
        shape = (self.num_batches, self.batch_size, self.num_features)
        draws = generator.random(shape) * cumulative[-1]
        places = generator.permutation(self.num_keys)
        return places[np.searchsorted(cumulative, draws)].astype(np.int64)
