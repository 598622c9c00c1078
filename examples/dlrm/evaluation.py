# SPDX-License-Identifier: Apache-2.0
"""Loss and exact AUC of a trained model on its test files."""

from typing import NamedTuple

import numpy as np

from examples.dlrm import auc


class Evaluation(NamedTuple):
    """What a model is worth on the test files."""

    num_samples: int
    loss: float  # mean
    auc: float


def evaluate(trainer, stop, progress=lambda num_samples: None):
    """Evaluates a trainer.Trainer; after Ctrl-C (`stop`) on what has been read by then."""
    labels, probabilities = [], []
    for batch_labels, batch_probabilities in trainer.test_batches():
        labels.append(batch_labels)
        probabilities.append(batch_probabilities)
        progress(len(batch_labels))
        if stop.is_set:
            break
    if not labels:
        return Evaluation(0, float("nan"), float("nan"))
    labels, probabilities = np.concatenate(labels), np.concatenate(probabilities)
    return Evaluation(
        len(labels), log_loss(labels, probabilities), auc.exact_auc(labels, probabilities)
    )


def log_loss(labels, probabilities):
    """Mean cross entropy; probabilities of float32, which may have been rounded to 0 or 1."""
    chances = np.where(labels > 0.5, probabilities, 1.0 - probabilities)
    return float(-np.log(np.maximum(chances, np.finfo(np.float32).tiny)).mean())
