# SPDX-License-Identifier: Apache-2.0
"""exact_auc against counting all pairs; log_loss against its formula."""

import math

import numpy as np
import pytest

from examples.dlrm.auc import exact_auc
from examples.dlrm.evaluation import log_loss


def count_pairs(labels, scores):
    """The definition: pairs (positive, negative) in the right order, ties counting half."""
    positive, negative = scores[labels == 1][:, None], scores[labels == 0][None, :]
    return np.mean((positive > negative) + 0.5 * (positive == negative))


@pytest.mark.parametrize("num_levels", [1, 2, 5, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_matches_counting_pairs(seed, num_levels):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, 200)
    scores = random.integers(0, num_levels, 200) + 0.3 * labels
    scores = np.floor(scores).astype(np.float32) if num_levels < 1000 else scores
    assert exact_auc(labels, scores) == pytest.approx(count_pairs(labels, scores), abs=1e-12)


def test_extremes():
    assert exact_auc([0, 0, 1], [0.1, 0.2, 0.3]) == 1.0
    assert exact_auc([1, 1, 0], [0.1, 0.2, 0.3]) == 0.0
    assert exact_auc([1, 0], [0.5, 0.5]) == 0.5


@pytest.mark.parametrize("labels", [[], [1, 1], [0]])
def test_one_class_has_no_auc(labels):
    assert math.isnan(exact_auc(labels, np.zeros(len(labels))))


def test_log_loss():
    labels, chances = np.array([1, 0, 1]), np.array([0.9, 0.2, 0.5])
    assert log_loss(labels, chances) == pytest.approx(-np.log([0.9, 0.8, 0.5]).mean())
    assert np.isfinite(log_loss(np.array([1]), np.array([0.0], np.float32)))
