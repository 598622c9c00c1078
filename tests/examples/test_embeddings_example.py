# SPDX-License-Identifier: Apache-2.0
"""The Keras model with its three lines learns what it learns without them, on any number of ranks.

Rows start with other numbers, so losses are near, not equal.
"""

import numpy as np
import pytest

from tests.distributed.launch import has_horovod, reports, run_ranks

NUM_RANKS = [1, pytest.param(2, marks=[pytest.mark.thorough, pytest.mark.skipif(
    not has_horovod(), reason="Horovod is not installed: run `make horovod`"
)])]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("num_ranks", NUM_RANKS)
def test_learns(num_ranks):
    environment = {"SOK_TEST_EAGER": "1"}
    ranks = reports(run_ranks("embeddings.embeddings_example", num_ranks, environment=environment))
    losses = np.mean([rank["losses"] for rank in ranks], axis=0)
    assert losses[1] < losses[0] < 0.72
    if num_ranks == 1:
        np.testing.assert_allclose(losses, ranks[0]["plain"], rtol=0.02)
