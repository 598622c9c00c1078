# SPDX-License-Identifier: Apache-2.0
"""Taobao's display advertisements: 20 columns, two of them lists with vertical bars between."""

import os

import numpy as np

from benchmarks.modelzoo import planting

LABELS = ("clk", "buy")
FEATURES = (
    "pid", "adgroup_id", "cate_id", "campaign_id", "customer", "brand", "user_id", "cms_segid",
    "cms_group_id", "final_gender_code", "age_level", "pvalue_level", "shopping_level",
    "occupation", "new_user_class_level", "tag_category_list", "tag_brand_list", "price",
)  # fmt: skip
COLUMNS = (*LABELS, *FEATURES)
_OF_USERS = {
    "cms_segid": 97, "cms_group_id": 13, "final_gender_code": 2, "age_level": 7,
    "pvalue_level": 4, "shopping_level": 3, "occupation": 2, "new_user_class_level": 5,
}  # fmt: skip
_OF_ADVERTISEMENTS = {
    "cate_id": 800, "campaign_id": 4_000, "customer": 3_000, "brand": 2_000, "price": 50,
}  # fmt: skip
_NUM_USERS, _NUM_ADVERTISEMENTS, _NUM_PLACES = 20_000, 8_000, 2
MAX_TAGS = 60  # more than the 50 that scripts keep
_MEAN_TAGS = 8
_TAG_MATCH = 0.4  # the chance that the advertisement's own category is among the user's tags

# Standard deviations of the parts of the log-odds, and what a match of tags adds.
_OF_CLICKS = {"cate_id": 0.7, "brand": 0.4, "cms_group_id": 0.4, "age_level": 0.4, "price": 0.3}
_OF_PURCHASES = {"brand": 0.6, "shopping_level": 0.5, "price": 0.4, "cate_id": 0.3}
_MATCH_EFFECT = 1.2
_CLICK_BIAS, _PURCHASE_BIAS, _CLICK_EFFECT = -1.2, -1.5, 1.5


def write(folder, sizes, seed):
    """taobao_train_data and taobao_test_data: as csv without a header, and as .parquet."""
    for chunk, (name, size) in enumerate(sizes.items()):
        columns = draw(size, seed, chunk)
        path = os.path.join(folder, f"taobao_{planting.PART_NAMES[name]}_data")
        rows = zip(*(columns[column] for column in COLUMNS))
        planting.write_lines(path, (",".join(map(str, row)) for row in rows))
        labels = {label: columns[label].astype(np.int32) for label in LABELS}
        planting.write_parquet(f"{path}.parquet", {**columns, **labels})


def draw(num_samples, seed, chunk):
    """{column: int64 [num_samples] for labels, else [str]}, in the order of the file."""
    random = np.random.default_rng([seed, chunk])
    ids = _draw_ids(random, num_samples, seed)
    tags, is_match = _draw_tags(random, ids)
    match = _MATCH_EFFECT * is_match
    clicks = planting.draw_labels(random, _CLICK_BIAS + match + _log_odds(ids, _OF_CLICKS, seed))
    log_odds = _PURCHASE_BIAS + _CLICK_EFFECT * clicks + _log_odds(ids, _OF_PURCHASES, seed + 1)
    purchases = planting.draw_labels(random, log_odds)
    texts = {name: [str(1 + i) for i in values] for name, values in ids.items()}
    texts["pid"] = [f"430{539 + 9 * i}_1007" for i in ids["pid"]]
    texts["price"] = [f"{9.9 + 10 * i:.1f}" for i in ids["price"]]
    drawn = {"clk": clicks, "buy": purchases, **texts, **tags}
    return {name: drawn[name] for name in COLUMNS}


def _draw_ids(random, num_samples, seed):
    """{column: int64 [num_samples]}; a user, and an advertisement, has always the same others."""
    users = planting.draw_categories(random, num_samples, _NUM_USERS)
    advertisements = planting.draw_categories(random, num_samples, _NUM_ADVERTISEMENTS)
    ids = {"user_id": users, "adgroup_id": advertisements}
    ids["pid"] = random.integers(0, _NUM_PLACES, num_samples)
    for one, number, others in (
        (users, _NUM_USERS, _OF_USERS),
        (advertisements, _NUM_ADVERTISEMENTS, _OF_ADVERTISEMENTS),
    ):
        of_all = np.random.default_rng([seed, number])
        for name, cardinality in others.items():
            ids[name] = planting.draw_categories(of_all, number, cardinality)[one]
    return ids


def _draw_tags(random, ids):
    """({column: lists as text}, bool [n]: whether the advertisement's category is among them)."""
    num_samples = len(ids["user_id"])
    lengths = np.minimum(random.geometric(1 / _MEAN_TAGS, num_samples), MAX_TAGS)
    is_match = random.random(num_samples) < _TAG_MATCH
    tags = {}
    for column, of in (("tag_category_list", "cate_id"), ("tag_brand_list", "brand")):
        drawn = planting.draw_categories(random, int(lengths.sum()), _OF_ADVERTISEMENTS[of])
        lists = np.split(drawn, np.cumsum(lengths)[:-1])
        for i in np.flatnonzero(is_match):
            lists[i][0] = ids[of][i]
        tags[column] = ["|".join(str(1 + tag) for tag in one) for one in lists]
    return tags, is_match


def _log_odds(ids, effects, seed):
    cardinalities = {**_OF_USERS, **_OF_ADVERTISEMENTS}
    return sum(
        effect * planting.table_of(seed, name, cardinalities[name])[ids[name]]
        for name, effect in effects.items()
    )
