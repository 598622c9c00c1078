# SPDX-License-Identifier: Apache-2.0
"""The exact area under the ROC curve."""

import numpy as np


def exact_auc(labels, scores):
    """The probability that a random positive scores above a random negative, ties counting half.

    `labels` [n] of 0 and 1, `scores` [n]. NaN when one of the two classes is missing.
    """
    labels = np.asarray(labels) > 0.5
    num_positive = int(labels.sum())
    num_negative = labels.size - num_positive
    if num_positive == 0 or num_negative == 0:
        return float("nan")
    _, group, group_sizes = np.unique(scores, return_inverse=True, return_counts=True)
    last_rank = np.cumsum(group_sizes)  # ranks from 1; equal scores share their mean rank
    ranks = (last_rank - (group_sizes - 1) / 2.0)[group.reshape(-1)]
    positive_ranks = ranks[labels].sum()
    return float(
        (positive_ranks - num_positive * (num_positive + 1) / 2.0) / (num_positive * num_negative)
    )
