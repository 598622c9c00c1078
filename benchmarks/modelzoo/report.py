# SPDX-License-Identifier: Apache-2.0
"""The tables of all runs, one for each script, in Markdown."""

import itertools
import os
import statistics

from benchmarks.kept import processor
from benchmarks.modelzoo.cases import BASELINE, DEFAULT
from benchmarks.tables import lines

_HEADINGS = (
    "flags", "ranks", "result", "loss, first", "last", "AUC", "s to first step",
    "samples/s", "times --tf",
)  # fmt: skip
_OF_OPS = ("ms of products", "of network", "of the rest", "the last two, of those of --tf")
_MAX_ERROR = 200  # characters


def report_lines(results, settings):
    """[str], a table for each script of [Result], and a summary."""
    by_model = itertools.groupby(results, lambda result: result.case.script.model)
    models = {model: list(of_model) for model, of_model in by_model}
    text = []
    for model, of_model in models.items():
        text += [f"## {model}", "", *_table(of_model, settings), ""]
    ratios = [_ratio(_of_feature(DEFAULT, each), each, settings) for each in models.values()]
    return [*text, *_summary(results, [ratio for ratio in ratios if ratio], settings)]


def _table(results, settings):
    """[str], of one script's [Result]."""
    headings, rows = _HEADINGS, [_row(result, results, settings) for result in results]
    if settings.timeline_steps:
        headings += _OF_OPS
        rows = [row + _op_times(result, results) for row, result in zip(rows, results)]
    return lines(headings, rows)


def _of_feature(feature, results):
    """The Result of one process with a feature, of one script; None if there is none."""
    for result in results:
        if result.case.feature == feature and result.case.num_ranks == 1:
            return result
    return None


def _op_times(result, results):
    """[milliseconds of a step's products, network, other ops; the last two, of those of --tf]."""
    own, baseline = result.op_times, _of_feature(BASELINE, results)
    if own is None:
        return [""] * 4
    of_tf = baseline.op_times if baseline and baseline is not result else None
    share = own.others / of_tf.others if of_tf else None
    times = [_text(each, ".1f") for each in (own.products, own.network, own.rest)]
    return [*times, _text(share, ".2f")]


def _row(result, results, settings):
    found, case = result.findings, result.case
    return [
        case.label,
        case.num_ranks,
        "runs" if result.runs else _shortened(result.error),
        _text(found.first_loss, ".4f"),
        _text(found.last_loss, ".4f"),
        ", ".join(f"{auc:.4f}" for auc in found.aucs),
        _text(found.first_step_seconds, ".1f"),
        _text(_samples_per_second(result, settings), ",.0f"),
        _text(_ratio(result, results, settings), ".2f"),
    ]


def _samples_per_second(result, settings):
    """Of all ranks; None where it is not known, and for a run that failed."""
    if result is None or not result.runs:
        return None
    steps, batch_size = result.findings.steps_per_second, result.case.batch_size(settings)
    return steps * batch_size if steps and batch_size else None


def _ratio(result, results, settings):
    """The speed of one of a script's [Result], over that of --tf; None where it is not known."""
    baseline = _of_feature(BASELINE, results)
    if result is baseline:
        return None
    speeds = [_samples_per_second(each, settings) for each in (result, baseline)]
    return speeds[0] / speeds[1] if all(speeds) else None


def _summary(results, ratios, settings):
    """[str], of all runs; the ratios are those of scripts by default."""
    num_running = sum(result.runs for result in results)
    text = f"{num_running} of {len(results)} run."
    if ratios:
        mean = statistics.geometric_mean(ratios)
        text += f" By default {mean:.2f} times --tf, the geometric mean of {len(ratios)} models."
    sizes = f"{settings.steps} steps of {settings.batch_size} samples"
    return [text, "", f"{sizes}; {processor()}, {os.cpu_count()} cores."]


def _shortened(error):
    error = " ".join(error.replace("|", "\\|").split())
    return error if len(error) <= _MAX_ERROR else error[: _MAX_ERROR - 3] + "..."


def _text(value, form):
    return "" if value is None else format(value, form)
