# SPDX-License-Identifier: Apache-2.0
"""What is seen while training: a live line on the console, TensorBoard summaries."""

import io

from examples.bars import Bar
from examples.dlrm import meter as meter_module
from examples.summaries import Summaries

_STEPS_BETWEEN_REPORTS = 25


class TrainingProgress:
    """Bars, meters and summaries of the models trained side by side (one, or a few)."""

    def __init__(self, trainers, summary_folders, total=None, is_shown=True):
        """`trainers`: {name: Trainer}; `summary_folders`: {name: path or None}."""
        self.meters = {name: meter_module.Meter(name) for name in trainers}
        self._summaries = {
            name: Summaries(summary_folders[name], trainer.graph)
            for name, trainer in trainers.items()
        }
        self.history = {name: [] for name in trainers}  # of reports: (samples, loss, AUC)
        stream = None if is_shown else io.StringIO()
        self._bars = {name: Bar(name, total, line, stream) for line, name in enumerate(trainers)}

    def add(self, name, result):
        """A model has made a step."""
        meter, bar = self.meters[name], self._bars[name]
        meter.add(result)
        if meter.num_steps % _STEPS_BETWEEN_REPORTS == 0:
            self._report(meter)
        bar.advance(len(result.labels))

    def close(self):
        """Shows and writes the last figures."""
        for name, meter in self.meters.items():
            if meter.num_steps % _STEPS_BETWEEN_REPORTS:
                self._report(meter)
            self._summaries[name].close()
        for bar in self._bars.values():
            bar.close()

    def _report(self, meter):
        loss, auc, speed = meter.loss(), meter.auc(), meter.samples_per_second()
        steps_per_second = speed * meter.num_steps / meter.num_samples
        self.history[meter.name].append((meter.num_samples, loss, auc))
        self._bars[meter.name].show(
            f"{steps_per_second:.1f} step/s {speed / 1000:.0f}k/s loss {loss:.4f} AUC {auc:.4f}"
        )
        self._summaries[meter.name].write(
            meter.num_steps, loss=loss, auc=auc, samples_per_second=speed
        )
