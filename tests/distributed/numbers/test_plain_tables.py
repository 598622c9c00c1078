# SPDX-License-Identifier: Apache-2.0
"""Tables without sok.Init train on several ranks as on one."""

import functools

import numpy as np
import pytest

from tests.distributed.launch import reports, run_ranks


@functools.cache
def results(num_ranks):
    """(losses, {key: row}) over all ranks."""
    ranks = reports(run_ranks("numbers.plain_tables", num_ranks))
    rows = [rank["rows"] for rank in ranks]
    merged = {key: row for each in rows for key, row in each.items()}
    assert len(merged) == sum(map(len, rows)) and all(map(len, rows))  # each key has one owner
    return np.sum([rank["losses"] for rank in ranks], axis=0), merged


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_equals_one_process(num_ranks):
    losses, rows = results(num_ranks)
    expected_losses, expected_rows = results(1)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    assert rows.keys() == expected_rows.keys()
    for key, row in expected_rows.items():
        np.testing.assert_allclose(rows[key], row, rtol=1e-5, atol=1e-6)
