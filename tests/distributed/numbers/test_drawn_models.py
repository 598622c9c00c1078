# SPDX-License-Identifier: Apache-2.0
"""Drawn models train on several ranks as on one process, whose first outputs are NumPy's.

`SOK_TEST_MODELS=300 pytest -m thorough tests/distributed/numbers/test_drawn_models.py` draws
that many.
"""

import os

import numpy as np
import pytest

from tests.distributed.launch import launched_once, reports, run_ranks

TOLERANCE = dict(rtol=2e-4, atol=2e-5)
FEW, MANY = 3, int(os.environ.get("SOK_TEST_MODELS", 2))
AT_ONCE = min(MANY, 20)


@launched_once
def trained(num_ranks, seeds):
    return reports(
        run_ranks("numbers.drawn_models", num_ranks, *seeds, timeout=100 + 30 * len(seeds))
    )


def contents_of(ranks, model):
    """[tables] of {key: (row, version, frequency)}, and of {key: what waits}, of all ranks."""
    found = []
    for parts in zip(*(rank[model]["contents"] for rank in ranks)):
        rows, waiting = {}, {}
        for (keys, values, *recorded), waits in parts:
            recorded = [x if len(x) else [None] * len(keys) for x in recorded]
            rows.update({k: (v, tuple(r)) for k, v, *r in zip(keys, values, *recorded)})
            waiting.update({k: tuple(r) for k, *r in zip(*waits)} if len(waits) else {})
        assert len(rows) == sum(len(keys) for (keys, *_), _ in parts)
        found.append((rows, waiting))
    return found


def check(model, one, ranks):
    alone = one[0][model]
    for i, expected in enumerate(alone["outputs"]):
        found = np.concatenate([rank[model]["outputs"][i] for rank in ranks])
        np.testing.assert_allclose(found, expected, **TOLERANCE, err_msg=f"output {i}")
    losses = np.mean([rank[model]["losses"] for rank in ranks], 0)
    np.testing.assert_allclose(losses, alone["losses"], **TOLERANCE)
    tables = zip(contents_of(ranks, model), contents_of(one, model))
    for number, ((rows, waiting), (expected, expected_waiting)) in enumerate(tables):
        assert rows.keys() == expected.keys(), f"table {number}"
        for key, (row, recorded) in expected.items():
            message = f"table {number}, key {key}"
            np.testing.assert_allclose(rows[key][0], row, **TOLERANCE, err_msg=message)
            assert rows[key][1] == recorded, message
        assert waiting == expected_waiting, f"table {number}"
    for rank in ranks:
        for found, expected in zip(rank[model]["dense"], alone["dense"]):
            np.testing.assert_allclose(found, expected, **TOLERANCE)


def problems_of(seeds, most_ranks):
    """A text for each model and number of ranks whose numbers differ."""
    one, problems = trained(1, seeds), []
    for model, alone in one[0].items():
        for num_ranks in range(1, most_ranks + 1):
            try:
                if num_ranks > 1:
                    check(model, one, trained(num_ranks, seeds))
                for found, expected in zip(alone["outputs"], alone.get("expected", ())):
                    np.testing.assert_allclose(found, expected, **TOLERANCE)
            except AssertionError as error:
                problems.append(f"{model}, {num_ranks} ranks, {alone['description']}: {error}")
    return problems


@pytest.mark.thorough
def test_a_few_models():
    problems = problems_of(tuple(range(FEW)), most_ranks=2)
    assert not problems, "\n".join(problems)


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(FEW, FEW + MANY, AT_ONCE))
def test_many_models(first):
    problems = problems_of(tuple(range(first, first + AT_ONCE)), most_ranks=3)
    assert not problems, "\n".join(problems)
