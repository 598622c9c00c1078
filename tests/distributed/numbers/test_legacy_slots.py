# SPDX-License-Identifier: Apache-2.0
"""Slots of tables that are ordinary variables, on several ranks."""

import numpy as np
import pytest

from tests.distributed.launch import has_horovod, reports, run_ranks


@pytest.mark.skipif(not has_horovod(), reason="Horovod is not installed: run `make horovod`")
def test_broadcasts_leave_each_rank_its_rows():
    ranks = reports(run_ranks("numbers.legacy_slots", 2, environment={"SOK_TEST_EAGER": "1"}))
    for seen in zip(*(rank["eager"] + rank["graph"] for rank in ranks)):
        (of_first, _), (of_second, _) = seen
        assert np.any(of_first[0] != of_second[0]) and np.any(of_first[1] != of_second[1])
        for (of_table, _), (table_after, dense_after) in seen:
            np.testing.assert_array_equal(table_after, of_table)
            np.testing.assert_array_equal(dense_after, of_first[1])
