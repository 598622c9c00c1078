# SPDX-License-Identifier: Apache-2.0
"""Amazon's books: users' histories as lists, with vocabularies, and what was not clicked."""

import os
import pickle

import numpy as np

from benchmarks.modelzoo import planting

COLUMNS = ("CLICKED", "UID", "ITEM", "CATEGORY", "HISTORY_ITEM", "HISTORY_CATEGORY")
NEGATIVE_COLUMNS = ("NOCLK_HISTORY_ITEM", "NOCLK_HISTORY_CATEGORY")
SEPARATOR = "\x02"  # within a list
MAX_HISTORY = 60  # more than the 50 that scripts keep
_MEAN_HISTORY = 10
_NUM_USERS, _NUM_ITEMS, _NUM_CATEGORIES = 2_000, 3_000, 60
_NUM_TASTES = 3  # categories that a user likes
_IN_TASTE = 0.8  # of a history, and of what is clicked


def write(folder, sizes, seed):
    """local_{train,test}_splitByUser: with tabs, as .parquet, and what was not clicked as ..._neg;
    vocabularies as text and pickled, item-info and reviews-info."""
    _write_vocabularies(folder, seed)
    reviews = []
    for chunk, (name, size) in enumerate(sizes.items()):
        columns = draw(size, seed, chunk)
        path = os.path.join(folder, f"local_{planting.PART_NAMES[name]}_splitByUser")
        for suffix, names in (("", COLUMNS), ("_neg", NEGATIVE_COLUMNS)):
            rows = zip(*(columns[column] for column in names))
            planting.write_lines(path + suffix, ("\t".join(map(str, row)) for row in rows))
            of_file = {column: columns[column] for column in names}
            planting.write_parquet(f"{path}{suffix}.parquet", of_file)
        reviews += [*zip(columns["UID"], columns["ITEM"])]
    lines = (f"{user}\t{item}\t5.0\t{i}" for i, (user, item) in enumerate(reviews))
    planting.write_lines(os.path.join(folder, "reviews-info"), lines)


def draw(num_samples, seed, chunk):
    """{column: int32 [num_samples] for CLICKED, else [str]} of both files."""
    random = np.random.default_rng([seed, chunk])
    categories = _categories_of_items(seed)
    tastes = np.random.default_rng([seed, 1 << 20]).integers(
        0, _NUM_CATEGORIES, (_NUM_USERS, _NUM_TASTES)
    )
    users = planting.draw_categories(random, num_samples, _NUM_USERS)
    lengths = np.minimum(random.geometric(1 / _MEAN_HISTORY, num_samples), MAX_HISTORY)
    clicked = random.integers(0, 2, num_samples)
    history = _draw_liked(random, tastes[np.repeat(users, lengths)], categories)
    items = _draw_liked(random, tastes[users], categories)
    others = random.integers(0, _NUM_ITEMS, num_samples)
    items = np.where(clicked, items, others)
    not_clicked = random.integers(0, _NUM_ITEMS, len(history))
    columns = {
        "CLICKED": clicked.astype(np.int32),
        "UID": [_user(user) for user in users],
        "ITEM": [_item(item) for item in items],
        "CATEGORY": [_category(categories[item]) for item in items],
    }
    for prefix, listed in (("HISTORY", history), ("NOCLK_HISTORY", not_clicked)):
        columns[f"{prefix}_ITEM"] = _as_lists([_item(i) for i in listed], lengths)
        of_items = [_category(categories[i]) for i in listed]
        columns[f"{prefix}_CATEGORY"] = _as_lists(of_items, lengths)
    return columns


def _draw_liked(random, tastes, categories):
    """int64 [n] items, most of them of a category of tastes [n, _NUM_TASTES]."""
    num_items = len(tastes)
    by_category = np.argsort(categories, kind="stable")
    begins = np.searchsorted(categories[by_category], np.arange(_NUM_CATEGORIES + 1))
    wanted = tastes[np.arange(num_items), random.integers(0, _NUM_TASTES, num_items)]
    sizes = begins[wanted + 1] - begins[wanted]
    liked = by_category[begins[wanted] + (random.random(num_items) * sizes).astype(np.int64)]
    any_item = random.integers(0, _NUM_ITEMS, num_items)
    return np.where(random.random(num_items) < _IN_TASTE, liked, any_item)


def _categories_of_items(seed):
    """int64 [_NUM_ITEMS]; each category has an item."""
    random = np.random.default_rng([seed, 2 << 20])
    categories = random.integers(0, _NUM_CATEGORIES, _NUM_ITEMS)
    categories[:_NUM_CATEGORIES] = np.arange(_NUM_CATEGORIES)
    return categories


def _write_vocabularies(folder, seed):
    vocabularies = {
        "uid": ["default_uid", *map(_user, range(_NUM_USERS))],
        "mid": ["default_mid", *map(_item, range(_NUM_ITEMS))],
        "cat": ["default_cat", *map(_category, range(_NUM_CATEGORIES))],
    }
    for name, words in vocabularies.items():
        planting.write_lines(os.path.join(folder, f"{name}_voc.txt"), words)
        with open(os.path.join(folder, f"{name}_voc.pkl"), "wb") as stream:
            pickle.dump({word: i for i, word in enumerate(words)}, stream)
    lines = (f"{_item(i)}\t{_category(c)}" for i, c in enumerate(_categories_of_items(seed)))
    planting.write_lines(os.path.join(folder, "item-info"), lines)


def _as_lists(words, lengths):
    ends = np.cumsum(lengths)
    return [SEPARATOR.join(words[end - n : end]) for n, end in zip(lengths, ends)]


def _user(i):
    return f"A{i:06d}"


def _item(i):
    return f"B{i:06d}"


def _category(i):
    return f"Category {i}"
