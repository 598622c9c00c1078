# SPDX-License-Identifier: Apache-2.0
"""Which ratings are trained on and which are held out."""

import numpy as np


def random_split(num_ratings, fraction, seed):
    """(places to train on, places held out): `fraction` of the ratings at random.

    Raises:
      ValueError: one of the two would be empty.
    """
    num_held_out = round(num_ratings * fraction)
    if not 0 < num_held_out < num_ratings:
        raise ValueError(
            f"a fraction of {fraction} of {num_ratings} ratings leaves {num_held_out} to hold out "
            f"and {num_ratings - num_held_out} to train on; each must be at least 1"
        )
    order = np.random.default_rng(seed).permutation(num_ratings)
    return order[num_held_out:], order[:num_held_out]


def fold(num_ratings, num_folds, number, seed):
    """(places to train on, places held out): one of `num_folds` parts that are equal up to 1.

    Raises:
      ValueError: there are more parts than ratings.
    """
    if num_folds > num_ratings:
        raise ValueError(f"{num_folds} folds need as many ratings, got {num_ratings}")
    order = np.random.default_rng(seed).permutation(num_ratings)
    parts = np.array_split(order, num_folds)
    return np.concatenate(parts[:number] + parts[number + 1 :]), parts[number]
