# SPDX-License-Identifier: Apache-2.0
"""`dump`, `load` and full variables of SparseOperationKit 2 on several ranks."""

import numpy as np
import pytest

from tests.distributed.launch import folder_of_tests, has_horovod, launched_once, reports, run_ranks

needs_horovod = pytest.mark.skipif(
    not has_horovod(), reason="Horovod is not installed: run `make horovod`"
)
RUNS = [
    pytest.param(1, "eager"),
    pytest.param(2, "eager", marks=needs_horovod),
    pytest.param(2, "graph", marks=needs_horovod),
    pytest.param(4, "eager", marks=[needs_horovod, pytest.mark.thorough]),
]
on_ranks = pytest.mark.parametrize("num_ranks, mode", RUNS)


def folder_of(num_ranks, mode):
    return f"{folder_of_tests('dumped_variables')}/{mode}-{num_ranks}"


@launched_once
def results(num_ranks, mode):
    """Loads what half as many ranks have dumped in the same mode."""
    num_dumped = max(1, num_ranks // 2)
    if num_dumped != num_ranks:
        results(num_dumped, mode)
    loads_from = folder_of(num_dumped, mode)
    environment = {"SOK_TEST_EAGER": "1"} if mode == "eager" else {}
    return reports(
        run_ranks(
            "sok2.dumped_variables", num_ranks, folder_of(num_ranks, mode), loads_from,
            environment=environment,
        )
    )  # fmt: skip


def merged(ranks, when, name):
    parts = [rank[when][name] for rank in ranks]
    whole = {key: row for part in parts for key, row in part.items()}
    assert len(whole) == sum(map(len, parts))
    return whole


def check_same(actual, expected):
    assert actual.keys() == expected.keys()
    for key, planes in expected.items():
        for plane, expected_plane in zip(actual[key], planes):
            np.testing.assert_allclose(plane, expected_plane, rtol=1e-5, atol=1e-6)


@on_ranks
@pytest.mark.parametrize("name", ["static", "local", "hbm", "hybrid"])
def test_what_is_loaded_is_what_was_dumped(num_ranks, mode, name):
    ranks = results(num_ranks, mode)
    trained = merged(ranks, "trained", name)
    for when in ("loaded", "loaded from other ranks"):
        loaded = merged(ranks, when, name)
        check_same({key: loaded[key] for key in trained}, trained)
        assert loaded.keys() == trained.keys() or name in ("static", "local")
    check_same(trained, merged(results(1, mode), "trained", name))


@on_ranks
def test_a_rank_loads_more_than_its_share(num_ranks, mode):
    num_rows = [rank["of rank 0"] for rank in results(num_ranks, mode)]
    assert num_rows == [2000] + [0] * (num_ranks - 1)


@on_ranks
def test_a_full_variable_evicts_the_least_recently_used_keys(num_ranks, mode):
    ranks = [rank["full"] for rank in results(num_ranks, mode)]
    for step, expected in enumerate([[], [], [0, 1, 2, 3], []]):
        assert sorted(key for rank in ranks for key in rank["gone"][step]) == expected


@on_ranks
def test_what_is_evicted_after_a_restore_is_what_was_used_least_recently(num_ranks, mode):
    gone = [rank["full"]["gone after restore"] for rank in results(num_ranks, mode)]
    assert sorted(key for of_rank in gone for key in of_rank) == [4, 5, 10, 11]


@on_ranks
def test_an_incremental_dump_has_the_keys_used_since(num_ranks, mode):
    for rank in results(num_ranks, mode):
        assert tuple(rank["full"]["since"]) == ([8, 9], [[1.0, 1.0]] * 2)


@on_ranks
def test_ranks_admit_the_same_keys(num_ranks, mode):
    for rank in results(num_ranks, mode):
        assert rank["filtered"] == results(1, mode)[0]["filtered"]
        assert set(rank["filtered"]) == {0.0, 1.0}
        assert 0.4 < np.mean(rank["filtered"]) < 0.6


@on_ranks
def test_what_is_evicted_while_training_has_the_trained_rows(num_ranks, mode):
    for rank in results(num_ranks, mode):
        assert rank["evicted while training"] > 5
