# SPDX-License-Identifier: Apache-2.0
"""Eager mode, functions and Keras give the numbers of one process on any number of ranks."""

import functools

import numpy as np
import pytest

from tests.distributed.launch import reports, run_ranks

pytestmark = pytest.mark.thorough

TOLERANCE = dict(rtol=1e-5, atol=1e-6)
FITS = ["fit eagerly, legacy Adagrad", "fit in a function, Adam"]
MODELS = [
    "eager, legacy Adagrad",
    "function, Adam",
    "function, sok Adam",
    *FITS,
    "functions called eagerly",
    "functions retraced on one rank",
    "control flow",
]
MODELS_OF = {
    1: MODELS,
    2: MODELS,
    # What an optimizer does to a rank's rows does not depend on how many ranks there are.
    4: ["functions retraced on one rank"],
}
RANKS_AND_MODELS = [(n, model) for n in (2, 4) for model in MODELS_OF[n]]


@functools.cache
def launched(num_ranks):
    """One launch trains all models."""
    environment = {"SOK_TEST_EAGER": 1}
    return run_ranks(
        "numbers.eager", num_ranks, *MODELS_OF[num_ranks], timeout=600, environment=environment
    )


def of_all_ranks(num_ranks, model, what):
    return [rank[model][what] for rank in reports(launched(num_ranks))]


@pytest.mark.parametrize("num_ranks, model", RANKS_AND_MODELS)
class TestEqualsOneProcess:
    """The model trained by several ranks and by one."""

    def test_losses(self, num_ranks, model):
        (alone,) = of_all_ranks(1, model, "losses")
        for ours, expected in zip(zip(*of_all_ranks(num_ranks, model, "losses")), alone):
            np.testing.assert_allclose(np.concatenate(ours), expected, **TOLERANCE)

    def test_rows(self, num_ranks, model):
        (alone,) = of_all_ranks(1, model, "rows")
        for parts, expected in zip(zip(*of_all_ranks(num_ranks, model, "rows")), alone):
            ours = {key: row for part in parts for key, row in part.items()}
            assert len(ours) == sum(map(len, parts)) and ours.keys() == expected.keys()
            for key, row in ours.items():
                np.testing.assert_allclose(row, expected[key], **TOLERANCE)


@pytest.mark.parametrize("num_ranks, model", [one for one in RANKS_AND_MODELS if one[1] in FITS])
def test_losses_that_keras_reports_add_up(num_ranks, model):
    (alone,) = of_all_ranks(1, model, "sums")
    ours = np.sum(of_all_ranks(num_ranks, model, "sums"), axis=0)
    np.testing.assert_allclose(ours, alone, rtol=1e-5)
