# SPDX-License-Identifier: Apache-2.0
"""Variables of SparseOperationKit 2 on several ranks: the losses, rows and checkpoints of one."""

import os

import numpy as np
import pytest

from tests.distributed.launch import folder_of_tests, has_horovod, launched_once, reports, run_ranks

pytestmark = pytest.mark.skipif(not has_horovod(), reason="Horovod is not installed")
SAVED_BY = 2  # ranks


@launched_once
def results(num_ranks):
    path = os.path.join(folder_of_tests("sok2"), "saved")
    task = "save" if num_ranks == SAVED_BY else "restore"
    if num_ranks != SAVED_BY:
        results(SAVED_BY)
    ran = run_ranks(
        "sok2.training", num_ranks, path, task, timeout=300, environment={"SOK_TEST_EAGER": "1"}
    )
    return reports(ran)


@pytest.fixture(
    scope="module",
    params=[1, 2, pytest.param(4, marks=pytest.mark.thorough)],
    ids="{} ranks".format,
)
def ranks(request):
    return results(request.param)


def merged(ranks, name):
    """For each variable, {key: row} of all ranks; each key has one owner."""
    of_variables = zip(*(rank[name] for rank in ranks))
    found = []
    for parts in of_variables:
        found.append({key: row for part in parts for key, row in part.items()})
        assert len(found[-1]) == sum(map(len, parts))
    return found


@pytest.mark.parametrize("mode", ["eager", "function", "graph", "after"])
def test_losses_are_those_of_one_process(ranks, mode):
    (alone,) = results(1)
    losses = np.sum([rank[mode] for rank in ranks], axis=0)
    np.testing.assert_allclose(losses, alone[mode], rtol=1e-4)


NAMES = ["rows", "restored", "rows of the graph", "restored in the graph"]


@pytest.mark.parametrize("name", [*NAMES, "dense", "group", "after"])
def test_rows_are_those_of_one_process(ranks, name):
    expected = results(1)
    if name not in NAMES:
        ranks, expected = ([rank["calls"] for rank in each] for each in (ranks, expected))
    for ours, alone in zip(merged(ranks, name), merged(expected, name)):
        assert ours.keys() == alone.keys()
        for key, row in alone.items():
            np.testing.assert_allclose(ours[key], row, rtol=1e-4, atol=1e-5)


def test_rows_that_were_written_before_a_lookup(ranks):
    for found, num_rows in zip(merged(ranks, "written"), (21, 21, 3, 3)):
        rows = 2 * np.arange(2.0 * num_rows).reshape(num_rows, 2)
        np.testing.assert_array_equal([found[key] for key in range(num_rows)], rows)


def test_errors_are_those_of_all_ranks(ranks):
    """Dumps where no folder can be, loads of another dim, keys of another rank."""
    for number, rank in enumerate(ranks):
        assert rank["calls"]["errors"] == [
            *("UnknownError", "UnknownError" if number else "InvalidArgumentError"),
            None if len(ranks) == 1 else "InvalidArgumentError",
        ]


def test_shapes(ranks):
    """Static variables show the rows of their rank."""
    for number, rank in enumerate(ranks):
        size = len(ranks)
        local = 21 // size + (number < 21 % size)
        owned = 21 if number == 0 else 1
        assert rank["shapes"] == [
            *([None, 4], [None, 3], [None, 2]),
            *([local, 3], [local, 2], [owned, 3]),
        ]


def test_a_call_is_one_request(ranks):
    """Keys, rows and gradients of six variables: an exchange each."""
    for rank in ranks:
        assert rank["exchanges"] <= (3 if len(ranks) > 1 else 0)


def test_collectives(ranks):
    size = len(ranks)
    for number, rank in enumerate(ranks):
        assert rank["collectives"] == {
            "ids": (number, size, number, size),
            "received": list(range(size)),
            "splits": [1] * size,
            "sums": [size * (size + 1) / 2, (size + 1) / 2, size, 1],
            "gathered": list(range(size)),
            "broadcast": 5,
        }
