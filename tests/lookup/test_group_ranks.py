# SPDX-License-Identifier: Apache-2.0
"""A group of lookups on several ranks: the numbers of plain TensorFlow on one process, and as few
ops and exchanges as one lookup takes."""

import numpy as np
import pytest

from tests.distributed.launch import launched_once, reports, run_ranks
from tests.support.cases.group_cases import CASES


@launched_once
def reported(num_ranks):
    return reports(run_ranks("numbers.groups", num_ranks, timeout=300))


@pytest.fixture(
    scope="module",
    params=[1, 2, pytest.param(4, marks=pytest.mark.thorough)],
    ids="{} ranks".format,
)
def ranks(request):
    return reported(request.param)


def test_outputs_of_ten_steps(ranks):
    (alone,) = reported(1)
    for step, expected in enumerate(alone["steps"]):
        outputs, _ = expected["plain"]
        for i, case in enumerate(CASES):
            ours = np.concatenate([rank["steps"][step]["ours"][0][i] for rank in ranks])
            np.testing.assert_allclose(
                ours, outputs[i], rtol=1e-4, atol=1e-5, err_msg=f"step {step}: {case}"
            )


def test_losses_of_ten_steps(ranks):
    (alone,) = reported(1)
    losses = [step["plain"][1] for step in alone["steps"]]
    assert losses[-1] < losses[0]
    for step, expected in enumerate(losses):
        ours = sum(rank["steps"][step]["ours"][1] for rank in ranks)
        np.testing.assert_allclose(ours, expected, rtol=1e-4)


def test_ops_and_exchanges_do_not_grow_with_tables(ranks):
    for rank in ranks:
        counts = rank["counts"]
        ops, exchanges = counts["1 table"]
        assert 0 < ops <= 10
        assert exchanges == (3 if len(ranks) > 1 else 0)
        many_ops, _ = counts["8 tables"]
        assert ops <= many_ops <= ops * (1 if len(ranks) > 1 else 2)  # of two halves at once
        assert counts["26 tables"] == counts["8 tables"] == (many_ops, exchanges)
        assert counts["8 layers"] == counts["8 tables"]
        more_ops, more_exchanges = counts["26 tables of 5 dims"]
        assert more_ops <= many_ops + 2 * 4
        assert more_exchanges == exchanges
