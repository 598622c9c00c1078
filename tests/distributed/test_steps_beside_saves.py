# SPDX-License-Identifier: Apache-2.0
"""A checkpoint that is saved while threads train has each step wholly, or not at all."""

import numpy as np
import pytest

from tests.distributed.launch import reports, run_ranks


@pytest.mark.parametrize("num_ranks", [1, 2, pytest.param(4, marks=pytest.mark.thorough)])
def test_all_tables_of_all_ranks_are_of_the_same_step(num_ranks, tmp_path):
    ranks = reports(run_ranks("steps_beside_saves", num_ranks, tmp_path))
    assert [rank["errors"] for rank in ranks] == [[None, None]] * num_ranks
    seen = ranks[0]["steps"]
    assert [[len(steps) for steps in of_models] for of_models in seen] == [[1, 1]] * len(seen)
    for before, after in zip(seen, seen[1:]):
        assert np.all(np.concatenate(after) > np.concatenate(before))
