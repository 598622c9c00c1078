# SPDX-License-Identifier: Apache-2.0
"""Scripts of TensorFlow 2 and Horovod, unchanged on one rank and two, train the same."""

import functools

import numpy as np
import pytest

from sok_compat.runtime.tf_versions import VERSION
from tests.distributed.launch import reports, run_ranks

pytestmark = pytest.mark.thorough

TOLERANCE = dict(rtol=1e-5, atol=1e-6)
FITS = ["fit, legacy SGD", "fit, Adam", "fit in a strategy, Adam"]
SCRIPTS = [
    "eager, allreduce",
    "function, allreduce",
    "eager, tape",
    "function, tape",
    "function, tape with groups",
    "function, clipped tape",
    "function, tape in a strategy",
    "eager, allreduce of all, broadcast in place",
    # Horovod 0.28's part for Keras takes the package `keras`, which is Keras 3 from 2.16 on.
    *(FITS if VERSION < (2, 16) else ()),
]


@functools.cache
def launched(num_ranks):
    """One launch runs all scripts."""
    environment = {"SOK_TEST_EAGER": 1}
    return run_ranks(
        "numbers.tf2_scripts", num_ranks, *SCRIPTS, timeout=300, environment=environment
    )


@pytest.mark.parametrize("script", SCRIPTS)
def test_two_ranks_equal_one(script):
    ((losses, variables, table),) = [rank[script] for rank in reports(launched(1))]
    ranks = [rank[script] for rank in reports(launched(2))]
    for our_losses, our_variables, _ in ranks:
        np.testing.assert_allclose(our_losses, losses, **TOLERANCE)
        for ours, expected in zip(our_variables, variables):
            np.testing.assert_allclose(ours, expected, **TOLERANCE)
    rows = {key: row for rank in ranks for key, row in rank[2].items()}
    assert rows.keys() == table.keys() and sum(len(rank[2]) for rank in ranks) == len(table)
    for key, row in rows.items():
        np.testing.assert_allclose(row, table[key], **TOLERANCE)
