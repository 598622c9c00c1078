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

from benchmarks import kept

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
_MEASURED = ROOT / "benchmarks" / "pictures"
_RESULTS = ROOT / "benchmarks" / "RESULTS.md"
_OURS, _PLAIN, _OTHER, _GREY = "#00796b", "#f57c00", "#5c6bc0", "#757575"
# Grey that can be read on white and on black, and no background: a page is light or dark.
_STYLE = {
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor"), _GREY),
    **dict.fromkeys(("xtick.color", "ytick.color"), _GREY),
    "savefig.transparent": True,
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


def _larger_data():
    return measured("larger_than_memory")["steps_per_second"]


def _draw_larger(axes: Axes, data: dict[str, Any]) -> None:
    for (kind, points), color in zip(data.items(), (_OURS, _OTHER)):
        shares, steps = zip(*points)
        axes.plot(shares, steps, marker="o", color=color, label=kind)
    axes.set(xlabel="share of rows and slots in memory", ylabel="steps a second", yscale="log")
    axes.legend(loc="upper left", frameon=False)


def _online_data():
    return measured("online")["auc"]


def _draw_online(axes: Axes, data: dict[str, Any]) -> None:
    for (title, points), color in zip(data.items(), (_OURS, _PLAIN)):
        seconds, aucs = zip(*points)
        axes.plot(seconds, aucs, color=color, label=f"the model that {title}")
    axes.set(xlabel="seconds", ylabel="AUC of the last requests", ylim=(0, 1))
    axes.legend(loc="lower right", frameon=False)


def _row_dtypes_data():
    return measured("row_dtypes")["bytes_a_key"]


def _draw_row_dtypes(axes: Axes, data: dict[str, Any]) -> None:
    colors = [_GREY if "float32" in title else _OURS for title in data]
    bars = axes.barh(list(data), list(data.values()), color=colors)
    parts = [size / next(iter(data.values())) for size in data.values()]
    axes.bar_label(bars, [f"{part:.2f}" for part in parts], padding=3, fontsize=9)
    axes.invert_yaxis()
    axes.set(xlabel="bytes of a key with its row of 32 numbers and slots")


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


_COLORS_OF_PARTS = {"whole": _OURS, "columns": _PLAIN, "rows": _OTHER, "copy": _GREY}
_OTHER_PARTS = "#bdbdbd"


def _plan_data():
    return measured("plan")["parts"]


def _draw_plan(axes: Axes, data: dict[str, Any]) -> None:
    titles, place = {}, 0.0
    for plan, ranks in data.items():
        for rank, parts in enumerate(ranks):
            titles[place] = f"{plan}: rank {rank}" if rank == 0 else f"{rank}"
            _draw_parts(axes, place, parts)
            place += 1
        place += 0.6  # between plans
    axes.set_yticks(list(titles), list(titles.values()))
    axes.invert_yaxis()
    axes.set(xlabel="GB of tables with one slot; numbers are tables")
    kinds = {"whole table": "whole", "some columns": "columns", "some rows": "rows", "copy": "copy"}
    shown = {
        title.split(", ")[-1] for ranks in data.values() for parts in ranks for title, _ in parts
    }
    for label, kind in kinds.items():
        if kind in shown:
            axes.barh(0, 0, color=_COLORS_OF_PARTS[kind], label=label)
    axes.barh(0, 0, color=_OTHER_PARTS, label="smaller tables")
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, 1.1), ncols=4, frameon=False, fontsize=9)


def _draw_parts(axes: Axes, place: float, parts: list[tuple[str, int]]) -> None:
    left = 0.0
    for title, num_bytes in parts:
        table, _, kind = title.partition(", ")
        color = _COLORS_OF_PARTS.get(kind, _OTHER_PARTS)
        width = num_bytes / 1e9
        axes.barh(place, width, 0.8, left, color=color, edgecolor="white", linewidth=1)
        if width > (0.15 if kind else 0.55):
            label = table if kind else title
            axes.text(
                left + width / 2, place, label, ha="center", va="center", fontsize=8,
                color="white" if kind else "black",
            )  # fmt: skip
        left += width


def _ranks_data():
    found = measured("ranks")["samples_per_second"]
    return {
        title: [[ranks, round(speed / points[0][1], 2)] for ranks, speed in points]
        for title, points in found.items()
    }


def _draw_ranks(axes: Axes, data: dict[str, Any]) -> None:
    for (title, points), color in zip(data.items(), (_OURS, _PLAIN, _OTHER)):
        ranks, ratios = zip(*points)
        axes.plot(ranks, ratios, marker="o", color=color, label=title)
    axes.axhline(1, color=_GREY, linestyle=":")
    axes.set_xticks(ranks)
    axes.set(xlabel="ranks of one host with two cores", ylabel="samples a second, one process = 1")
    axes.set_ylim(bottom=0)
    axes.legend(loc="best", frameon=False)


def history_data(folder: pathlib.Path = kept.FOLDER) -> dict[str, Any]:
    """{section: {contender: [[run, how many times as fast as it we were]]}} of kept runs."""
    data: dict[str, Any] = {}
    for run in kept.read(folder):
        for (section, name), ratio in run.ratios().items():
            points = data.setdefault(section, {}).setdefault(name, [])
            points.append([f"{run.date}\n{run.commit}", round(ratio, 2)])
    return data


def _draw_history(axes: Axes, data: dict[str, Any]) -> None:
    colors = {"plain TensorFlow": _PLAIN, "recommenders-addons": _OTHER}
    runs = dict.fromkeys(
        run for of_section in data.values() for points in of_section.values() for run, _ in points
    )
    places = {run: place for place, run in enumerate(runs)}
    for marker, (section, of_section) in zip("osD^v", data.items()):
        for name, points in of_section.items():
            axes.plot(
                [places[run] for run, _ in points],
                [ratio for _, ratio in points],
                marker=marker,
                color=colors.get(name, _GREY),
                label=f"{section}: {name}",
            )
    axes.axhline(1, color=_GREY, linestyle=":")
    axes.set_xticks(range(len(runs)), list(runs), fontsize=8)
    axes.set_xlim(-0.5, len(runs) - 0.5)
    axes.set_ylim(bottom=0)
    axes.set(ylabel="times as fast as the other")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=9)


# Parts of the names of ops -> what they do; the first that fits counts.
_WORK = {
    "ExchangeKeys": ("exchange keys", "#7e57c2"),
    "ExchangeRows_grad/SokMergeGradients": ("sum gradients", "#fbc02d"),
    "ExchangeValues": ("exchange gradients", "#ad1457"),
    "SokMergeGradients": ("sum gradients", "#fbc02d"),
    "SokExchangeRows": ("exchange rows", "#5c6bc0"),
    "DistinctKeys": ("distinct keys", "#26a69a"),
    "FindRows": ("find rows", "#00796b"),
    "PoolReceivedRows": ("pool rows", "#80cbc4"),
    "ApplyRule": ("update", "#f57c00"),
}
_MODEL = ("the model", "#bdbdbd")


def work_of(op: str) -> str:
    """What an op of a step does."""
    return next((work for part, (work, _) in _WORK.items() if part in op), _MODEL[0])


def _step_data():
    """For each rank [[work, begin, end]], in microseconds."""
    return [
        [[work_of(op), begin, end] for op, begin, end in ops]
        for ops in measured("step")["ops_of_ranks"]
    ]


def _draw_step(axes: Axes, data: list[Any]) -> None:
    colors = dict([*_WORK.values(), _MODEL])
    shown: set[str] = set()
    for rank, ops in enumerate(data):
        for work, begin, end in ops:
            axes.barh(
                rank,
                (end - begin) / 1000,
                0.6,
                begin / 1000,
                color=colors[work],
                label=None if work in shown else work,
            )
            shown.add(work)
    axes.set_yticks(range(len(data)), [f"rank {rank}" for rank in range(len(data))])
    axes.invert_yaxis()
    axes.set(xlabel="ms")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=3, frameon=False)


# {name of the file: (its size in inches, the data drawn, the function that draws them)}
PICTURES: dict[str, tuple[tuple[float, float], Callable[[], Any], Callable[..., None]]] = {
    "auc": ((6, 3.4), _auc_data, _draw_auc),
    "history": ((6, 3.4), history_data, _draw_history),
    "larger_than_memory": ((6, 3.4), _larger_data, _draw_larger),
    "memory": ((6, 3.4), _memory_data, _draw_memory),
    "online": ((6, 3.4), _online_data, _draw_online),
    "plan": ((6, 5), _plan_data, _draw_plan),
    "ranks": ((6, 3.4), _ranks_data, _draw_ranks),
    "row_dtypes": ((6, 2.6), _row_dtypes_data, _draw_row_dtypes),
    "speed": ((6, 3.8), _speed_data, _draw_speed),
    "step": ((6, 3.4), _step_data, _draw_step),
}


def draw(name: str, path: pathlib.Path, data: Any = None) -> None:
    """Writes a picture, with the data that it shows in its description.

    Args:
      name: in PICTURES.
      path: of the file.
      data: None: those of the picture.
    """
    size, data_of, draw_in = PICTURES[name]
    data = data_of() if data is None else data
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
