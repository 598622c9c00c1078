# SPDX-License-Identifier: Apache-2.0
"""Gradients through Horovod's collectives, of ranks that train as one process."""

import numpy as np
import pytest

from tests.distributed.launch import has_horovod, launched_once, reports, run_ranks

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not has_horovod(), reason="Horovod is not installed: run `make horovod`"),
]
CASES = [
    "broadcast", "gathered", "gathered_in_groups", "scattered", "scattered_means",
    "scattered_in_groups", "exchanged", "means_with_weights", "means_with_random_weights",
    "groups_of_means", "squares_of_sums", "in_branches", "in_loops", "sums_of_some",
    "means_of_some", "gathered_of_some",
]  # fmt: skip
FORMS = [  # of one loss, that of the batch of all ranks
    "own_mean", "beside_a_sum", "mean_of_means", "halves_of_means", "grouped_means",
    "quotient_of_means", "gathered_losses", "gathered_logits",
]  # fmt: skip
FORMS_OF_SUMS = [
    "sum_by_number_of_ranks", "sum_of_scaled", "sum_of_shares", "sum_of_halves", "grouped_sums",
    "quotient_of_sums", "scattered_sums",
]  # fmt: skip
ALL = CASES + FORMS_OF_SUMS + FORMS
CASES_OF = {
    1: ALL,
    2: ALL,
    4: [  # of some of the ranks, and one of each collective
        "broadcast", "gathered", "scattered", "exchanged", "groups_of_means", "sums_of_some",
        "means_of_some", "gathered_of_some", "sum_by_number_of_ranks", "mean_of_means",
    ],
}  # fmt: skip


@launched_once
def ranks(num_ranks):
    """[rank] of what it reported."""
    environment = {"HOROVOD_DYNAMIC_PROCESS_SETS": "1"}
    cases = CASES_OF[num_ranks]
    return reports(run_ranks("numbers.loss_gradients", num_ranks, *cases, environment=environment))


@pytest.mark.parametrize("num_ranks, case", [(n, case) for n in CASES_OF for case in CASES_OF[n]])
def test_gradients_are_those_of_one_process(num_ranks, case):
    (_, expected), *_ = of_ranks = [rank["gradients"][case] for rank in ranks(num_ranks)]
    for found, *_ in of_ranks:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_all_cases_are_compared():
    assert list(ranks(1)[0]["gradients"]) == ALL


def test_sums_in_losses_are_refused_unless_they_are_asked_for():
    for rank in ranks(2):
        for form in FORMS_OF_SUMS:
            text = rank["refusals"][form]
            assert "which reduces by hvd.Sum, and nobody can tell" in text
            assert "is meant, write op=hvd.Average; if the sum is meant, pass differentiate" in text


@pytest.mark.parametrize("reduction", ["Max", "Product"])
def test_reductions_without_a_gradient_are_refused(reduction):
    for rank in ranks(2):
        text = rank["refusals"][reduction]
        assert f"which reduces by hvd.{reduction}: only hvd.Sum and hvd.Average have one" in text


def test_a_rank_may_fetch_more_beside_the_gradients():
    """Of losses whose gradients by the collectives are constants."""
    for rank in ranks(2):
        for first, second in rank["repeated"]:
            np.testing.assert_array_equal(first, second)
