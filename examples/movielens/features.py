# SPDX-License-Identifier: Apache-2.0
"""What the model is given of a rating: keys of one value each, and bags of keys."""

import dataclasses
from typing import NamedTuple

import numpy as np

from examples.movielens import reader

# Features with one value; all are keys of one table, so the feature's number is part of the key.
USER_FEATURES = ("user", "age", "gender", "occupation")
ITEM_FEATURES = ("item", "year")
SINGLE_FEATURES = USER_FEATURES + ITEM_FEATURES

_AGE_BAND = 5  # years
_FEATURE_STRIDE = 1 << 32


class Batch(NamedTuple):
    """The keys of n ratings."""

    singles: np.ndarray  # int64 [n, len(SINGLE_FEATURES)]
    other_items: "Bags"  # the other items that the user rated in the training data
    genres: "Bags"  # of the item


@dataclasses.dataclass(frozen=True)
class Bags:
    """Lists of keys, one behind the other."""

    keys: np.ndarray  # int64 [number of keys]
    splits: np.ndarray  # int64 [number of bags + 1]: bag b is keys[splits[b] : splits[b + 1]]

    @classmethod
    def of(cls, keys, owners, num_bags):
        """Bag b has the `keys` whose owner is b."""
        order = np.argsort(owners, kind="stable")
        return cls(keys[order], _splits(np.bincount(owners, minlength=num_bags)))

    def take(self, numbers):
        """The bags of these numbers, which may repeat."""
        lengths = np.diff(self.splits)[numbers]
        splits = _splits(lengths)
        shifts = np.repeat(self.splits[numbers] - splits[:-1], lengths)
        return Bags(self.keys[shifts + np.arange(splits[-1])], splits)

    def without(self, keys):
        """Each bag without one key: keys[b] of bag b."""
        rows = self.rows()
        is_kept = self.keys != keys[rows]
        lengths = np.bincount(rows[is_kept], minlength=len(self.splits) - 1)
        return Bags(self.keys[is_kept], _splits(lengths))

    def rows(self):
        """The bag of each key, [number of keys]."""
        return np.repeat(np.arange(len(self.splits) - 1), np.diff(self.splits))

    def largest(self):
        """The number of keys in the largest bag."""
        return int(np.diff(self.splits).max(initial=0))


class Features:
    """The keys of any ratings, from the files and from the ratings that are trained on."""

    def __init__(self, users, items, training):
        """users: {id: reader.User}; items: {id: reader.Item}; training: reader.Ratings."""
        occupations = sorted({user.occupation for user in users.values()})
        self._columns = {
            "age": _column(users, lambda user: user.age // _AGE_BAND),
            "gender": _column(users, lambda user: user.gender),
            "occupation": _column(users, lambda user: occupations.index(user.occupation)),
            "year": _column(items, lambda item: item.year),
        }
        self._rated_items = Bags.of(training.items, training.users, max(users) + 1)
        genres = [(genre, number) for number, item in items.items() for genre in item.genres]
        genre_keys, owners = np.array(genres, np.int64).reshape(-1, 2).T
        self._genres = Bags.of(genre_keys, owners, max(items) + 1)

    def limits(self):
        """(most other items of a user, most genres of an item); at least 1."""
        return max(1, self._rated_items.largest()), reader.NUM_GENRES

    def batch(self, ratings):
        """The Batch of these reader.Ratings.

        The item itself is left out of the user's bag: what is to be predicted must not be seen.
        """
        singles = []
        for number, name in enumerate(SINGLE_FEATURES):
            ids = ratings.users if name in USER_FEATURES else ratings.items
            values = self._columns[name][ids] if name in self._columns else ids
            singles.append(number * _FEATURE_STRIDE + values)
        return Batch(
            np.stack(singles, axis=1),
            self._rated_items.take(ratings.users).without(ratings.items),
            self._genres.take(ratings.items),
        )


def _splits(lengths):
    return np.concatenate([[0], np.cumsum(lengths)])


def _column(records, value):
    """int64 [largest id + 1]: `value` of the record of each id."""
    column = np.zeros(max(records) + 1, np.int64)
    for number, record in records.items():
        column[number] = value(record)
    return column
