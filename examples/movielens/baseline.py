# SPDX-License-Identifier: Apache-2.0
"""What a rating is without any taste: mean + how the user rates + how the item is rated."""

import dataclasses

import numpy as np

from examples.movielens import split

_SWEEPS = 20  # of the alternating fit; the biases stand still to 1e-4 before
_CANDIDATES = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0)  # ridge penalties that are tried
_VALIDATION_FRACTION = 0.1


def rmse(predictions, values):
    """Root of the mean squared error."""
    return float(np.sqrt(np.mean((predictions - values) ** 2, dtype=np.float64)))


def clipped(predictions):
    """No rating is below 1 or above 5."""
    return np.clip(predictions, 1.0, 5.0)


@dataclasses.dataclass(frozen=True)
class BiasModel:
    """The biases that minimise sum (rating - mean - user bias - item bias)^2
    + user_ridge * sum user bias^2 + item_ridge * sum item bias^2."""

    mean: float
    users: np.ndarray  # [largest user id + 1]
    items: np.ndarray  # [largest item id + 1]
    user_ridge: float
    item_ridge: float

    def predict(self, ratings):
        """float64 [n]."""
        return clipped(self.mean + self.users[ratings.users] + self.items[ratings.items])


def fit(ratings, num_users, num_items, user_ridge, item_ridge):
    """The BiasModel of these penalties; ids are below num_users and num_items."""
    mean = float(ratings.values.mean(dtype=np.float64))
    residuals = ratings.values - mean
    user_weights = user_ridge + np.bincount(ratings.users, minlength=num_users)
    item_weights = item_ridge + np.bincount(ratings.items, minlength=num_items)
    users = np.zeros(num_users)
    for _ in range(_SWEEPS):
        left = residuals - users[ratings.users]
        items = np.bincount(ratings.items, left, minlength=num_items) / item_weights
        left = residuals - items[ratings.items]
        users = np.bincount(ratings.users, left, minlength=num_users) / user_weights
    return BiasModel(mean, users, items, user_ridge, item_ridge)


def fit_tuned(ratings, num_users, num_items, seed):
    """As above, with the penalties that do best on a part of `ratings` held out for that."""
    rest, held_out = split.random_split(len(ratings), _VALIDATION_FRACTION, seed)
    rest, held_out = ratings.take(rest), ratings.take(held_out)

    def error(penalties):
        model = fit(rest, num_users, num_items, *penalties)
        return rmse(model.predict(held_out), held_out.values)

    penalties = [(user, item) for user in _CANDIDATES for item in _CANDIDATES]
    return fit(ratings, num_users, num_items, *min(penalties, key=error))
