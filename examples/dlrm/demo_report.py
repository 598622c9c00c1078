# SPDX-License-Identifier: Apache-2.0
"""The table at the end of the demo."""

import math


def table(titles, meters, evaluations, data):
    """Text: one row for each model ({name: title}), and one for the planted model itself."""
    rows = [("", "test AUC", "test loss", "training AUC", "samples/s", "steps")]
    for name, title in titles.items():
        rows.append((title, *_figures(meters[name], evaluations.get(name))))
    rows.append(("best possible", f"{data.best_auc:.4f}", f"{data.best_loss:.4f}", "", "", ""))
    lines = [_line(row) for row in rows]
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join(["", *lines, "", *_notes(titles, evaluations, data)])


def _figures(meter, evaluation):
    speed = f"{meter.median_speed():,.0f}"
    test_auc = f"{evaluation.auc:.4f}" if evaluation else "not measured"
    test_loss = f"{evaluation.loss:.4f}" if evaluation else "not measured"
    return test_auc, test_loss, _figure(meter.auc()), speed, f"{meter.num_steps:,}"


def _figure(value):
    return "-" if math.isnan(value) else f"{value:.4f}"


def _line(row):
    return f"{row[0]:<18}" + "".join(f"{cell:>14}" for cell in row[1:])


def _notes(titles, evaluations, data):
    """The comparison in words, as far as there is one."""
    notes = [
        f"{titles[name]}: {data.best_auc - evaluation.auc:.4f} below the best possible AUC"
        for name, evaluation in evaluations.items()
    ]
    if len(evaluations) == 2:
        first, second = evaluations
        difference = evaluations[first].auc - evaluations[second].auc
        notes.append(f"{titles[first]} minus {titles[second]}: {difference:+.4f} AUC")
    return notes


def ranks_table(num_ranks, alone, together):
    """Text: the model trained by one process (an Evaluation) and by several (an Outcome)."""
    rows = [("", "test AUC", "test loss"), ("1 process", f"{alone.auc:.4f}", f"{alone.loss:.4f}")]
    name = f"{num_ranks} processes"
    if together.problem:
        return "\n".join(["", *map(_line, rows), "", f"{name}: {together.problem}"])
    rows.append((name, f"{together.auc:.4f}", f"{together.loss:.4f}"))
    return "\n".join(["", *map(_line, rows)])
