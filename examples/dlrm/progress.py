# SPDX-License-Identifier: Apache-2.0
"""What is seen while training: a live line on the console, TensorBoard summaries."""

import io
import os
import shutil
import sys
import time

import tensorflow as tf
import tqdm

from examples.dlrm import meter as meter_module

tf1 = tf.compat.v1

_STEPS_BETWEEN_REPORTS = 25
_SECONDS_BETWEEN_REFRESHES = 0.5
# Narrow enough to leave room for a model's figures on 80 columns.
_FORMAT = "{desc}{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} <{remaining}{postfix}"
_FORMAT_WITHOUT_TOTAL = "{desc}{n_fmt} samples {elapsed}{postfix}"
_SECONDS_BETWEEN_LINES = 10  # where the output is not a terminal


class Summaries:
    """Writes the figures of a meter for TensorBoard; does nothing without a folder."""

    def __init__(self, folder, graph):
        self._writer = None
        if folder is not None:
            with graph.as_default():
                self._writer = tf1.summary.FileWriter(os.fspath(folder), graph)

    def write(self, step, **figures):
        """One value for each name."""
        if self._writer is not None:
            values = [
                tf1.Summary.Value(tag=name, simple_value=value) for name, value in figures.items()
            ]
            self._writer.add_summary(tf1.Summary(value=values), step)

    def close(self):
        """Writes what is not yet written."""
        if self._writer is not None:
            self._writer.close()


class Bar:
    """A live tqdm bar on a terminal; elsewhere a line now and then."""

    def __init__(self, title, total, position=0, stream=None):
        """`position`: line on the terminal, of several bars at a time. `total` may be None."""
        self._stream = stream or sys.stdout
        self._is_live = self._stream.isatty()
        self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
        self._bar = tqdm.tqdm(
            total=total,
            desc=f"{title:<9}",
            bar_format=_FORMAT if total else _FORMAT_WITHOUT_TOTAL,
            unit_scale=True,
            ncols=shutil.get_terminal_size().columns,  # 80 where the terminal does not say
            position=position,
            file=self._stream if self._is_live else io.StringIO(),
            mininterval=_SECONDS_BETWEEN_REFRESHES if self._is_live else float("inf"),
        )

    def advance(self, num_samples):
        """`num_samples` more are done."""
        self._bar.update(num_samples)
        if not self._is_live and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
            self._print_line()

    def show(self, figures):
        """Puts text behind the bar."""
        self._bar.set_postfix_str(figures, refresh=False)

    def close(self):
        """Leaves the last state on the console."""
        if not self._is_live:
            self._print_line()
        self._bar.refresh()
        self._bar.close()

    def _print_line(self):
        print(self._bar, file=self._stream, flush=True)


class TrainingProgress:
    """Bars, meters and summaries of the models trained side by side (one, or a few)."""

    def __init__(self, trainers, summary_folders, total=None, is_shown=True):
        """`trainers`: {name: Trainer}; `summary_folders`: {name: path or None}."""
        self.meters = {name: meter_module.Meter(name) for name in trainers}
        self._summaries = {
            name: Summaries(summary_folders[name], trainer.graph)
            for name, trainer in trainers.items()
        }
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
        self._bars[meter.name].show(
            f"{steps_per_second:.1f} step/s {speed / 1000:.0f}k/s loss {loss:.4f} AUC {auc:.4f}"
        )
        self._summaries[meter.name].write(
            meter.num_steps, loss=loss, auc=auc, samples_per_second=speed
        )
