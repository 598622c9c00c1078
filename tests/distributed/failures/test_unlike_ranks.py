# SPDX-License-Identifier: Apache-2.0
"""Ranks that run the same lookups, and have something else around them, train as one process."""

import numpy as np
import pytest

from tests.distributed.launch import launched_once, reports, run_ranks

IN_FUNCTIONS = [
    "nothing", "print", "assert", "identity", "branch before", "no data", "names before",
    "branch of logits", "map of logits", "assert of logits", "loss scale", "branch of labels",
    "map of labels", "assert of labels", "summary",
]  # fmt: skip
IN_GRAPHS = [*IN_FUNCTIONS, "hooks"]
ON_MORE_RANKS = ["print", "no data", "names before"]  # one of what delays, empties, or renames
ENVIRONMENT = {"SOK_STALL_TIMEOUT_SECONDS": 90}


@launched_once
def losses(num_ranks, is_eager):
    """{what rank 0 has: the losses of steps, summed over ranks}"""
    extras = {
        1: ["nothing", "nothing, eleven layers"],
        2: IN_FUNCTIONS if is_eager else IN_GRAPHS,
        4: ON_MORE_RANKS,
    }[num_ranks]
    environment = {**ENVIRONMENT, **({"SOK_TEST_EAGER": 1} if is_eager else {})}
    ranks = run_ranks(
        "failures.unlike_ranks", num_ranks, *extras, environment=environment, timeout=300
    )
    ranks = reports(ranks)
    return {extra: np.sum([rank[extra] for rank in ranks], axis=0) for extra in extras}


def check(extra, num_ranks, is_eager):
    alike = "nothing, eleven layers" if extra == "names before" else "nothing"
    np.testing.assert_allclose(
        losses(num_ranks, is_eager)[extra], losses(1, is_eager)[alike], rtol=1e-4
    )


@pytest.mark.parametrize("extra", IN_GRAPHS)
def test_in_graphs(extra):
    check(extra, 2, is_eager=False)


@pytest.mark.thorough
@pytest.mark.parametrize("extra", ON_MORE_RANKS)
def test_on_more_ranks(extra):
    check(extra, 4, is_eager=False)


@pytest.mark.thorough
@pytest.mark.parametrize("extra", IN_FUNCTIONS)
def test_in_functions(extra):
    check(extra, 2, is_eager=True)
