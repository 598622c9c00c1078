# SPDX-License-Identifier: Apache-2.0
"""DistributedEmbedding on several ranks: the numbers of plain variables on one process."""

import functools

import numpy as np
import pytest

from tests.distributed.launch import has_horovod, reports, run_ranks

PLANS = ["basic", "columns", "all kinds", "rows"]
GROUPS = {  # with one rank all are those of 'basic'
    "basic": [[], [0, 1, 2, 3, 4], []],
    "columns": [[], [0, 1, 2, 3, 4], []],
    "all kinds": [[3, 4], [0, 1], [2]],
    "rows": [[3], [], [0, 1, 2, 4]],
}


@functools.cache
def reported(num_ranks):
    environment = {"SOK_TEST_EAGER": "1"}
    return reports(
        run_ranks("embeddings_of_plans", num_ranks, timeout=300, environment=environment)
    )


@pytest.fixture(
    scope="module",
    params=[
        1,
        2,
        pytest.param(3, marks=pytest.mark.thorough),
        pytest.param(4, marks=pytest.mark.thorough),
    ],
    ids="{} ranks".format,
)
def ranks(request):
    if request.param > 1 and not has_horovod():
        pytest.skip("needs Horovod")
    return reported(request.param)


@pytest.mark.parametrize("plan", PLANS)
def test_tables_are_of_the_groups_of_the_plan(ranks, plan):
    for rank in ranks:
        groups = rank["plans"][plan]["table groups"]
        assert groups == GROUPS[plan if len(ranks) > 1 else "basic"]
        assert rank["plans"][plan]["local"] == [
            *[False] * len(groups[0]),
            *[True] * (len(rank["plans"][plan]["local"]) - len(groups[0])),
        ]


@pytest.mark.parametrize("plan", PLANS)
def test_weights_come_back_as_they_were_set(ranks, plan):
    for number, rank in enumerate(ranks):
        made = rank["plans"][plan]
        for actual, expected in zip(made["as set"], made["given"]):
            np.testing.assert_array_equal(actual, expected)
        assert made["num of rank 0"] == (len(made["given"]) if number == 0 else 0)
        for actual, expected in zip(made["first"], ranks[0]["plans"][plan]["first"]):
            assert 0 < np.std(actual) < 0.1
            assert len(ranks) > 1 or np.array_equal(actual, expected)


@pytest.mark.parametrize("plan", PLANS)
def test_outputs(ranks, plan):
    made = [rank["plans"][plan] for rank in ranks]
    for i, expected in enumerate(made[0]["plain"]["outputs"]):
        actual = np.concatenate([one["outputs"][i] for one in made])
        np.testing.assert_allclose(actual.reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)
        assert actual.ndim == 2 or len(ranks) == 1 or plan in ("all kinds", "rows")


@pytest.mark.parametrize("plan", PLANS)
def test_training(ranks, plan):
    made = [rank["plans"][plan] for rank in ranks]
    losses = np.mean([one["losses"] for one in made], axis=0)
    np.testing.assert_allclose(losses, made[0]["plain"]["losses"], rtol=1e-4)
    for one in made:
        for actual, expected in zip(one["trained"], made[0]["plain"]["trained"]):
            np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=3e-5)


def test_fit_with_broadcasts(ranks):
    ((losses, weights),) = [rank["fit"] for rank in reported(1)]
    assert losses[-1] < losses[0]
    mean = np.mean([rank["fit"][0] for rank in ranks], axis=0)
    np.testing.assert_allclose(mean, losses, rtol=1e-5)
    for rank in ranks:
        for actual, expected in zip(rank["fit"][1], weights):
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)
