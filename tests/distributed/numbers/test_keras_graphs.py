# SPDX-License-Identifier: Apache-2.0
"""Keras's fit in graph mode gives the numbers of one process on any number of ranks."""

import functools

import numpy as np
import pytest

from tests.distributed.launch import reports, run_ranks

pytestmark = pytest.mark.thorough

TOLERANCE = dict(rtol=1e-5, atol=1e-6)


@functools.cache
def launched(num_ranks):
    """One launch trains with all optimizers."""
    return run_ranks("numbers.keras_graphs", num_ranks, timeout=500)


@pytest.mark.parametrize("num_ranks", [2, 4])
@pytest.mark.parametrize(
    "optimizer", ["SGD", "Adagrad", "Adam of all rows", "Adagrad in its scope"]
)
def test_fit_equals_one_process(num_ranks, optimizer):
    (alone,) = [rank[optimizer] for rank in reports(launched(1))]
    ranks = [rank[optimizer] for rank in reports(launched(num_ranks))]
    losses = np.mean([rank["losses"] for rank in ranks], axis=0)
    np.testing.assert_allclose(losses, alone["losses"], **TOLERANCE)
    predicted = np.stack([rank["predicted"] for rank in ranks], axis=2)
    np.testing.assert_allclose(
        predicted.reshape(alone["predicted"].shape), alone["predicted"], **TOLERANCE
    )
    for rank in ranks:
        for ours, expected in zip(rank["dense"], alone["dense"]):
            np.testing.assert_allclose(ours, expected, **TOLERANCE)
    rows = {key: row for rank in ranks for key, row in rank["rows"].items()}
    assert rows.keys() == alone["rows"].keys()
    for key, row in rows.items():
        np.testing.assert_allclose(row, alone["rows"][key], **TOLERANCE)
