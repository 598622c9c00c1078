# SPDX-License-Identifier: Apache-2.0
"""The running figures of one model while it trains: loss, AUC, speed."""

import collections
from typing import NamedTuple

import numpy as np

from examples.dlrm import auc

WINDOW_SAMPLES = 50_000


class StepResult(NamedTuple):
    """What one training step over all ranks shows; the probabilities precede the update."""

    loss: float  # mean over the batch
    labels: np.ndarray  # [batch]
    probabilities: np.ndarray  # [batch]
    seconds: float


class Meter:
    """The figures of one model: totals, and loss and AUC over the last WINDOW_SAMPLES samples.

    The AUC is that of predictions made before the model was trained on the sample.
    """

    def __init__(self, name):
        self.name = name
        self.num_steps = 0
        self.num_samples = 0
        self._step_speeds = []
        self._window = collections.deque()
        self.window_samples = 0

    def add(self, result):
        """Takes in a StepResult."""
        self.num_steps += 1
        self.num_samples += len(result.labels)
        self._step_speeds.append(len(result.labels) / result.seconds)
        self._window.append(result)
        self.window_samples += len(result.labels)
        while self.window_samples - len(self._window[0].labels) >= WINDOW_SAMPLES:
            self.window_samples -= len(self._window.popleft().labels)

    def loss(self):
        """Mean over the window; NaN before the first step."""
        total = sum(result.loss * len(result.labels) for result in self._window)
        return total / self.window_samples if self._window else float("nan")

    def auc(self):
        """Over the window; NaN as long as only one class has been seen."""
        if not self._window:
            return float("nan")
        return auc.exact_auc(
            np.concatenate([result.labels for result in self._window]),
            np.concatenate([result.probabilities for result in self._window]),
        )

    def samples_per_second(self):
        """Over the window; 0 before the first step."""
        return self.window_samples / max(sum(result.seconds for result in self._window), 1e-9)

    def median_speed(self):
        """Samples per second of the median step; 0 before the first."""
        return float(np.median(self._step_speeds)) if self._step_speeds else 0.0
