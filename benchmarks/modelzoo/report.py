# SPDX-License-Identifier: Apache-2.0
"""The table of all runs, in Markdown."""

import statistics

from benchmarks.modelzoo.cases import BASELINE, DEFAULT
from benchmarks.tables import lines

_HEADINGS = (
    "model", "flags", "ranks", "result", "loss, first", "last", "AUC", "s to first step",
    "samples/s", "times --tf",
)  # fmt: skip
_OF_OPS = ("ms of products", "of network", "of the rest", "the last two, of those of --tf")
_MAX_ERROR = 200  # characters


def report_lines(results, settings):
    """[str], a table and a summary of [Result]."""
    baselines = {
        result.case.script.model: _samples_per_second(result, settings)
        for result in results
        if result.runs and result.case.feature == BASELINE
    }
    rows = [_row(result, settings, baselines.get(result.case.script.model)) for result in results]
    headings = _HEADINGS
    if settings.timeline_steps:
        headings += _OF_OPS
        rows = [row + _op_times(result, results) for row, result in zip(rows, results)]
    return [*lines(headings, rows), "", _summary(results, settings, baselines)]


def _op_times(result, results):
    """[milliseconds of a step's products, network, other ops; the last two, of those of --tf]."""
    own = result.op_times
    if own is None:
        return [""] * 4
    model = result.case.script.model
    of_tf = [
        each.op_times.others
        for each in results
        if each.op_times and each.case.feature == BASELINE and each.case.script.model == model
    ]
    share = own.others / of_tf[0] if of_tf and result.case.feature != BASELINE else None
    times = [_text(each, ".1f") for each in (own.products, own.network, own.rest)]
    return [*times, _text(share, ".2f")]


def _row(result, settings, baseline):
    found, case = result.findings, result.case
    speed = _samples_per_second(result, settings) if result.runs else None
    ratio = speed / baseline if speed and baseline and case.feature != BASELINE else None
    return [
        case.script.model,
        case.label,
        case.num_ranks,
        "runs" if result.runs else _shortened(result.error),
        _text(found.first_loss, ".4f"),
        _text(found.last_loss, ".4f"),
        ", ".join(f"{auc:.4f}" for auc in found.aucs),
        _text(found.first_step_seconds, ".1f"),
        _text(speed, ",.0f"),
        _text(ratio, ".2f"),
    ]


def _samples_per_second(result, settings):
    """Of all ranks; None where it is not known."""
    steps, batch_size = result.findings.steps_per_second, result.case.batch_size(settings)
    return steps * batch_size if steps and batch_size else None


def _summary(results, settings, baselines):
    num_running = sum(result.runs for result in results)
    text = f"{num_running} of {len(results)} run."
    speeds = {
        result.case.script.model: _samples_per_second(result, settings)
        for result in results
        if result.runs and result.case.feature == DEFAULT and result.case.num_ranks == 1
    }
    ratios = [s / baselines[model] for model, s in speeds.items() if s and baselines.get(model)]
    if ratios:
        mean = statistics.geometric_mean(ratios)
        text += f" By default {mean:.2f} times --tf, the geometric mean of {len(ratios)} models."
    return text


def _shortened(error):
    error = " ".join(error.replace("|", "\\|").split())
    return error if len(error) <= _MAX_ERROR else error[: _MAX_ERROR - 3] + "..."


def _text(value, form):
    return "" if value is None else format(value, form)
