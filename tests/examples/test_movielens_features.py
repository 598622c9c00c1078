# SPDX-License-Identifier: Apache-2.0
"""The keys of a rating, the split, and the baseline that the model is held against."""

import movielens_data
import numpy as np
import pytest
from movielens_data import item_line, rating_line, user_line, write

from examples.movielens import baseline, split
from examples.movielens.features import SINGLE_FEATURES, Bags, Features


def as_lists(bags):
    return [bags.keys[a:b].tolist() for a, b in zip(bags.splits[:-1], bags.splits[1:])]


def test_bags_equal_lists():
    rng = np.random.default_rng(2)
    owners, keys = rng.integers(0, 6, 40), rng.integers(0, 9, 40)
    lists = [[k for k, owner in zip(keys, owners) if owner == bag] for bag in range(7)]
    bags = Bags.of(keys, owners, 7)
    assert as_lists(bags) == lists
    assert bags.largest() == max(map(len, lists))
    numbers, left_out = rng.integers(0, 7, 20), rng.integers(0, 9, 20)
    taken = bags.take(numbers)
    assert as_lists(taken) == [lists[n] for n in numbers]
    assert taken.rows().tolist() == [row for row, n in enumerate(numbers) for _ in lists[n]]
    expected = [[k for k in lists[n] if k != out] for n, out in zip(numbers, left_out)]
    assert as_lists(taken.without(left_out)) == expected


@pytest.fixture
def small(tmp_path):
    """(users, items, ratings): user 1 has rated items 1, 2 and 4, user 3 item 2, user 2 none."""
    write(
        tmp_path,
        [user_line(1, 24), user_line(2, 25), user_line(3, 29, "F", "artist")],
        [item_line(1, [3, 5]), item_line(2), item_line(4, [5], date="")],
        data=[rating_line(1, 1), rating_line(1, 2), rating_line(1, 4), rating_line(3, 2)],
    )
    return movielens_data.read(tmp_path)


def test_a_batch(small):
    users, items, ratings = small
    features = Features(users, items, ratings)
    batch = features.batch(ratings)
    assert as_lists(batch.other_items) == [[2, 4], [1, 4], [1, 2], []]  # never the item itself
    assert as_lists(batch.genres) == [[3, 5], [], [5], []]
    assert features.limits() == (3, 19)
    stride, low = 2**32, batch.singles % 2**32
    assert (batch.singles // stride == np.arange(len(SINGLE_FEATURES))).all()
    assert low[:, SINGLE_FEATURES.index("user")].tolist() == [1, 1, 1, 3]
    assert low[:, SINGLE_FEATURES.index("age")].tolist() == [4, 4, 4, 5]
    assert low[:, SINGLE_FEATURES.index("year")].tolist() == [1995, 1995, 0, 1995]
    assert low[:, SINGLE_FEATURES.index("item")].tolist() == [1, 2, 4, 2]


def test_ratings_held_out_are_in_no_bag(small):
    users, items, ratings = small
    features = Features(users, items, ratings.take([0, 3]))
    assert as_lists(features.batch(ratings).other_items) == [[], [1], [1], []]


def test_split():
    training, held_out = split.random_split(1000, 0.1, seed=4)
    assert sorted([*training, *held_out]) == list(range(1000))
    assert len(held_out) == 100
    np.testing.assert_array_equal(split.random_split(1000, 0.1, seed=4)[1], held_out)
    assert split.random_split(1000, 0.1, seed=5)[1].tolist() != held_out.tolist()


@pytest.mark.parametrize("fraction", [0, 1, -1, 2, 0.01])
def test_split_that_leaves_nothing(fraction):
    with pytest.raises(ValueError, match=rf"fraction of {fraction} of 10 ratings"):
        split.random_split(10, fraction, seed=1)


def test_the_baseline_is_the_ridge_regression(tmp_path):
    """Against the normal equations, solved at once."""
    _, _, ratings = movielens_data.read(movielens_data.write_planted(tmp_path, 8, 6, 30))
    model = baseline.fit(ratings, 9, 7, user_ridge=2.0, item_ridge=0.5)
    design = np.concatenate([np.eye(9)[ratings.users], np.eye(7)[ratings.items]], axis=1)
    penalty = np.diag([2.0] * 9 + [0.5] * 7)
    biases = np.linalg.solve(
        design.T @ design + penalty, design.T @ (ratings.values - ratings.values.mean())
    )
    np.testing.assert_allclose(np.concatenate([model.users, model.items]), biases, atol=1e-4)
    expected = np.clip(ratings.values.mean() + design @ biases, 1, 5)
    np.testing.assert_allclose(model.predict(ratings), expected, atol=1e-4)


def test_the_baselines_penalties_are_chosen_on_what_it_is_not_fitted_on(tmp_path):
    """Ratings without any bias: the strongest penalty does best on ratings not seen."""
    _, _, ratings = movielens_data.read(movielens_data.write_planted(tmp_path))
    model = baseline.fit_tuned(ratings, 61, 51, seed=1)
    assert (model.user_ridge, model.item_ridge) == (12.0, 12.0)
