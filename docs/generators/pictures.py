# SPDX-License-Identifier: Apache-2.0
"""Draws docs/pictures/*.svg from measured files: `python -m docs.generators.pictures`."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
_MEASURED = ROOT / "benchmarks" / "pictures"
_RESULTS = ROOT / "benchmarks" / "RESULTS.md"
_OURS, _PLAIN, _OTHER, _GREY = "#00796b", "#f57c00", "#5c6bc0", "#757575"
_STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "sans-serif",
    "font.size": 11,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "sok_compat",  # the same picture has the same bytes
}


def measured(name: str) -> dict[str, Any]:
    """A file of benchmarks/pictures."""
    return json.loads((_MEASURED / f"{name}.json").read_text())


def _auc_data():
    found = measured("auc")
    return {key: found[key] for key in ("training_auc", "test_auc")}


def _draw_auc(axes: Axes, data: dict[str, Any]) -> None:
    for (title, points), color, style in zip(
        data["training_auc"].items(), (_OURS, _PLAIN), ("-", (0, (4, 2)))
    ):
        samples, aucs = zip(*points)
        label = f"{title}: {data['test_auc'][title]:.4f} on test data"
        axes.plot([n / 1e6 for n in samples], aucs, color=color, linestyle=style, label=label)
    best = data["test_auc"]["best possible"]
    axes.axhline(best, color=_GREY, linestyle=":", label=f"best possible: {best:.4f}")
    axes.set(xlabel="samples, millions", ylabel="AUC of the last 50,000 samples", ylim=(0.7, 0.81))
    axes.legend(loc="lower right", frameon=False)


def _memory_data():
    found = measured("memory")["resident_bytes"]
    return {title: points[::4] + points[-1:] for title, points in found.items()}


def _draw_memory(axes: Axes, data: dict[str, Any]) -> None:
    for (title, points), color, style in zip(
        data.items(), (_OURS, _OTHER, _PLAIN), ("-", (0, (4, 2)), "-")
    ):
        keys, sizes = zip(*points)
        axes.plot(
            [n / 1e6 for n in keys],
            [size / 2**20 for size in sizes],
            color=color,
            linestyle=style,
            label=title,
        )
    axes.set(xlabel="keys that have come, millions", ylabel="resident memory, MiB")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower right", frameon=False)


_STEP_ROW = re.compile(r"^\| train, adagrad, dim (\d+) +\|(.+)\|$", re.MULTILINE)


def _speed_data():
    """{contender: {dim: ms of a training step}} from the table of the last full run."""
    data: dict[str, dict[str, float]] = {}
    for dim, row in _STEP_ROW.findall(_RESULTS.read_text()):
        ours, plain, _, peer, _ = (cell.split()[0] for cell in row.split("|"))
        values = {"sok_compat": ours, "plain TensorFlow": plain, "recommenders-addons": peer}
        for title, value in values.items():
            data.setdefault(title, {})[dim] = float(value)
    return data


def _draw_speed(axes: Axes, data: dict[str, Any]) -> None:
    height = 0.8 / len(data)
    for number, ((title, times), color) in enumerate(zip(data.items(), (_OURS, _PLAIN, _OTHER))):
        places = [place + (number - 1) * height for place in range(len(times))]
        bars = axes.barh(places, list(times.values()), height, color=color, label=title)
        axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=9)
    dims = list(next(iter(data.values())))
    axes.set_yticks(range(len(dims)), [f"dim {dim}" for dim in dims])
    axes.invert_yaxis()
    axes.set(xlabel="ms of a training step, Adagrad")
    axes.legend(loc="upper right", frameon=False)


# {name of the file: (its size in inches, the data drawn, the function that draws them)}
PICTURES: dict[str, tuple[tuple[float, float], Callable[[], Any], Callable[..., None]]] = {
    "auc": ((6, 3.4), _auc_data, _draw_auc),
    "memory": ((6, 3.4), _memory_data, _draw_memory),
    "speed": ((6, 3.8), _speed_data, _draw_speed),
}


def draw(name: str, path: pathlib.Path) -> None:
    """Writes a picture, with the data that it shows in its description."""
    size, data_of, draw_in = PICTURES[name]
    data = data_of()
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        draw_in(figure.add_subplot(), data)
        metadata = {"Date": None, "Description": json.dumps(data)}
        figure.savefig(path, format="svg", metadata=metadata)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for picture in PICTURES:
        draw(picture, FOLDER / f"{picture}.svg")
