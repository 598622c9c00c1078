# SPDX-License-Identifier: Apache-2.0
"""Filters and eviction on several ranks: what one process does that is fed their batches."""

import numpy as np
import pytest

from tests.distributed.launch import has_horovod, launched_once, reports, run_ranks

TOLERANCE = dict(rtol=1e-4, atol=1e-6)
needs_horovod = pytest.mark.skipif(
    not has_horovod(), reason="Horovod is not installed: run `make horovod`"
)


@launched_once
def trained(num_ranks):
    return reports(run_ranks("deeprec.deeprec_filters", num_ranks, timeout=200))


def rows_of(ranks, when, name):
    """{key: (row, version, freq)} of all ranks, none of which has another's key."""
    found = {}
    for rank in ranks:
        keys, rows, versions, freqs = rank[when][0][name]
        assert not found.keys() & set(keys)
        found.update({k: (r, v, f) for k, r, v, f in zip(keys, rows, versions, freqs)})
    return found


def waiting_of(ranks, when, name):
    return {k: pair for rank in ranks for k, *pair in zip(*rank[when][1][name])}


@needs_horovod
@pytest.mark.parametrize("num_ranks", [2, pytest.param(4, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", ["counted", "filter", "bloom", "steps", "weights"])
def test_ranks_count_and_evict_as_one_process(num_ranks, name):
    one, ranks = trained(1), trained(num_ranks)
    for when in ("before", "after", "end"):
        expected, actual = rows_of(one, when, name), rows_of(ranks, when, name)
        assert actual.keys() == expected.keys()
        for key, (row, version, freq) in expected.items():
            np.testing.assert_allclose(actual[key][0], row, **TOLERANCE)
            assert actual[key][1:] == (version, freq)
        assert waiting_of(ranks, when, name) == waiting_of(one, when, name)
        for rank in ranks:  # each is told of all ranks' keys
            np.testing.assert_array_equal(rank[when][2][name], one[0][when][2][name])


@needs_horovod
@pytest.mark.parametrize("num_ranks", [2, pytest.param(4, marks=pytest.mark.thorough)])
def test_losses_of_ranks_are_those_of_one_process(num_ranks):
    for what in ("losses", "again"):
        mean = np.mean([rank[what] for rank in trained(num_ranks)], 0)
        np.testing.assert_allclose(mean, trained(1)[0][what], **TOLERANCE)


def test_the_options_have_an_effect():
    (one,) = trained(1)
    before, after = ({n: set(one[w][0][n][0]) for n in one[w][0]} for w in ("before", "after"))
    assert before["filter"] and before["filter"] < before["counted"]
    assert before["bloom"] == before["filter"]
    assert waiting_of([one], "before", "filter").keys() == before["counted"] - before["filter"]
    assert after["steps"] < before["steps"] and after["weights"] < before["weights"]
    assert after["filter"] == before["filter"]
