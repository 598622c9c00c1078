# SPDX-License-Identifier: Apache-2.0
"""Tables without sok.Init train on several ranks as on one."""

import numpy as np
import pytest

from tests.distributed.launch import launched_once, reports, run_ranks

TABLES = ["grows", "draws", "evicts", "in_files"]
NEWEST = range(30, 42)  # keys of the last step


def merged(parts):
    """{key: row} over all ranks, each of which has keys of its own."""
    whole = {key: row for part in parts for key, row in part.items()}
    assert len(whole) == sum(map(len, parts)) and all(map(len, parts))
    return whole


@launched_once
def results(num_ranks):
    return reports(run_ranks("numbers.plain_tables", num_ranks))


def check_same(rows, expected):
    assert rows.keys() == expected.keys()
    for key, row in expected.items():
        np.testing.assert_allclose(rows[key], row, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("num_ranks", [2, 3, pytest.param(4, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("table", TABLES)
def test_equals_one_process(num_ranks, table):
    ranks, (one,) = results(num_ranks), results(1)
    losses = np.sum([rank["losses"][table] for rank in ranks], axis=0)
    np.testing.assert_allclose(losses, one["losses"][table], rtol=1e-5)
    check_same(merged([rank["rows"][table] for rank in ranks]), one["rows"][table])


@pytest.mark.parametrize("num_ranks", [2, pytest.param(4, marks=pytest.mark.thorough)])
def test_rows_of_two_bytes_have_the_same_bits(num_ranks):
    """Updates round at random, by the key, not by who owns it."""
    rows, (one,) = merged([rank["rows"]["halves"] for rank in results(num_ranks)]), results(1)
    assert rows.keys() == one["rows"]["halves"].keys()
    for key, row in one["rows"]["halves"].items():
        np.testing.assert_array_equal(rows[key], row)


@pytest.mark.parametrize("num_ranks", [2, 3, pytest.param(4, marks=pytest.mark.thorough)])
def test_evicted_keys_are_those_of_one_process(num_ranks):
    """With the rows that they had, and each once."""
    (one,) = results(1)
    for step, expected in enumerate(one["gone"]):
        parts = [rank["gone"][step] for rank in results(num_ranks)]
        if expected:
            check_same(merged(parts), expected)
        else:
            assert not any(parts)


def test_the_tables_evict_and_draw():
    (one,) = results(1)
    gone = [key for step in one["gone"] for key in step]
    assert gone == list(range(42 - 24)) and len(one["rows"]["evicts"]) == 24
    assert set(NEWEST) <= one["rows"]["evicts"].keys()
    assert 0 < len(one["rows"]["draws"]) < len(one["rows"]["grows"])
