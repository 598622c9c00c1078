# SPDX-License-Identifier: Apache-2.0
"""Keras's fit in graph mode gives the numbers of one process on any number of ranks."""

import functools

import numpy as np
import pytest

from tests.distributed.launch import reports, run_ranks

pytestmark = pytest.mark.thorough

TOLERANCE = dict(rtol=1e-5, atol=1e-6)
OPTIMIZERS = ["SGD", "Adagrad", "Adam of all rows", "Adagrad in its scope"]
# What an optimizer does to a rank's rows does not depend on how many ranks there are.
OPTIMIZERS_OF = {1: OPTIMIZERS, 2: OPTIMIZERS, 4: ["Adagrad"]}


@functools.cache
def launched(num_ranks):
    """One launch trains with all optimizers."""
    return run_ranks("numbers.keras_graphs", num_ranks, *OPTIMIZERS_OF[num_ranks], timeout=500)


@pytest.mark.parametrize(
    "num_ranks, optimizer", [(n, optimizer) for n in (2, 4) for optimizer in OPTIMIZERS_OF[n]]
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
