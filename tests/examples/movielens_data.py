# SPDX-License-Identifier: Apache-2.0
"""Small files in MovieLens 100K's form for the tests, and the real ones where they are."""

import os
import pathlib

import numpy as np

from examples.movielens import reader

ROOT = pathlib.Path(__file__).resolve().parents[2]


def real_folder():
    """The folder in $SOK_ML100K, or ../shared/data/ml-100k; it need not exist."""
    return pathlib.Path(os.environ.get("SOK_ML100K") or ROOT.parent / "shared/data/ml-100k")


def user_line(number, age=30, gender="M", occupation="writer"):
    return f"{number}|{age}|{gender}|{occupation}|12345"


def item_line(number, genres=(), date="01-Jan-1995", title="Title (1995)"):
    flags = ["1" if genre in genres else "0" for genre in range(reader.NUM_GENRES)]
    return "|".join([str(number), title, date, "", "http://host/title", *flags])


def rating_line(user, item, rating=3, timestamp=881250949):
    return f"{user}\t{item}\t{rating}\t{timestamp}"


def write(folder, users, items, **ratings):
    """Writes the lines of u.user, u.item and of one file for each of `ratings` (`data`: u.data)."""
    files = {reader.USERS_FILE: users, reader.ITEMS_FILE: items}
    files.update({"u.data" if name == "data" else name: lines for name, lines in ratings.items()})
    for name, lines in files.items():
        text = "".join(line + "\n" for line in lines)
        (folder / name).write_text(text, encoding="latin-1")
    return folder


def write_planted(folder, num_users=60, num_items=50, num_ratings=2000):
    """Ratings that follow two tastes: user and item biases cannot tell them apart."""
    rng = np.random.default_rng(5)
    tastes, kinds = rng.choice([-1, 1], num_users), rng.choice([-1, 1], num_items)
    pairs = rng.permutation(num_users * num_items)[:num_ratings]
    users, items = pairs // num_items, pairs % num_items
    values = np.clip(np.round(3 + 1.5 * tastes[users] * kinds[items] + rng.normal(0, 0.3)), 1, 5)
    return write(
        folder,
        [user_line(number + 1) for number in range(num_users)],
        [item_line(number + 1, [int(kinds[number] > 0)]) for number in range(num_items)],
        data=[rating_line(u + 1, i + 1, int(v)) for u, i, v in zip(users, items, values)],
    )


def read(folder, name="u.data"):
    """(users, items, ratings)."""
    users, items = reader.read_users(folder), reader.read_items(folder)
    return users, items, reader.read_ratings(folder, name, users, items)
