# SPDX-License-Identifier: Apache-2.0
"""The same global batches give the same numbers, whatever the number of ranks."""

import functools

import numpy as np
import pytest

from tests.distributed.launch import reports, run_ranks

pytestmark = pytest.mark.thorough

TOLERANCE = dict(rtol=1e-5, atol=1e-6)

# All other tests of ranks, but for some of failures, share memory.
CARRIERS = {
    1: {},
    2: {"SOK_SHARED_MEMORY": 0},  # Horovod alone
    4: {"SOK_TEST_HOSTS": 2},  # Horovod between hosts
}

# At each number of ranks. Each model has all layers, and of the first two each optimizer trains
# tables with a hash index and without.
NUM_MODELS = {1: 2, 2: 2, 4: 1}


@functools.cache
def launched(num_ranks):
    """One launch checks all models."""
    models, environment = NUM_MODELS[num_ranks], CARRIERS[num_ranks]
    return run_ranks("numbers.invariance", num_ranks, models, timeout=400, environment=environment)


def trained(num_ranks):
    """[ranks] of what it saw of each model."""
    return reports(launched(num_ranks))


def joined(num_ranks, model, what):
    """[steps] of the ranks' values, one after the other: the samples of the global batch."""
    ranks = [rank[model][what] for rank in trained(num_ranks)]
    return [np.concatenate(parts) for parts in zip(*ranks)]


def of_all_ranks(num_ranks, model, what):
    """[tables] of {key: value}, no key on two ranks."""
    tables = []
    for parts in zip(*[rank[model][what] for rank in trained(num_ranks)]):
        tables.append({key: value for part in parts for key, value in part.items()})
        assert len(tables[-1]) == sum(map(len, parts))
    return tables


@pytest.mark.parametrize(
    "num_ranks, model", [(n, model) for n in (2, 4) for model in range(NUM_MODELS[n])]
)
class TestEqualsOneProcess:
    """The model trained by several ranks and by one."""

    @pytest.mark.parametrize("what", ["outputs", "losses"])
    def test_samples(self, num_ranks, model, what):
        for ours, alone in zip(joined(num_ranks, model, what), joined(1, model, what)):
            np.testing.assert_allclose(ours, alone, **TOLERANCE)

    @pytest.mark.parametrize("what", ["gradients", "read_gradients"])
    def test_gradients_are_sums_over_ranks(self, num_ranks, model, what):
        all_tables = of_all_ranks(num_ranks, model, what)
        for ours, alone in zip(all_tables, of_all_ranks(1, model, what)):
            assert ours.keys() == alone.keys()
            for key, gradient in ours.items():
                np.testing.assert_allclose(gradient, alone[key], **TOLERANCE)

    def test_rows(self, num_ranks, model):
        all_tables = of_all_ranks(num_ranks, model, "rows")
        for ours, alone in zip(all_tables, of_all_ranks(1, model, "rows")):
            assert ours.keys() == alone.keys()
            for key, row in ours.items():
                np.testing.assert_allclose(row, alone[key], **TOLERANCE)

    def test_lookup_of_unknown_keys(self, num_ranks, model):
        (alone,) = trained(1)
        for rank in trained(num_ranks):
            for ours, rows in zip(rank[model]["unknown"], alone[model]["unknown"]):
                np.testing.assert_allclose(ours, rows, **TOLERANCE)
