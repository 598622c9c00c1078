# SPDX-License-Identifier: Apache-2.0
"""A picture of one step in timelines of `python -m benchmarks.communication --trace`, as SVG.

`python -m benchmarks.timeline_picture before.json after.json --kind "1 layers" --out picture.svg`
draws, for each file, the step of the median length and what the exchanges of each rank do in it.
"""

import argparse
import dataclasses
import json
from pathlib import Path
from xml.sax.saxutils import escape

_WIDTH, _LEFT, _LINE, _GAP = 900, 130, 22, 30
_COLORS = {  # of the parts of an exchange, by the words that its name ends with
    "waits to leave": "#f2b134",
    "travels, waits for other ranks": "#d1495b",
    "waits to go on": "#8d6a9f",
    "is taken": "#2a7f9e",
}
_STEP_COLOR = "#dddddd"


@dataclasses.dataclass(frozen=True)
class Slice:
    """Something that takes time; microseconds from the beginning of the step."""

    name: str
    begin: float
    end: float


def read_step(path, kind):
    """{rank's name: [Slice]} of the step whose length on the first rank is the median, in that
    file; "step" is a slice, too.

    Raises:
      ValueError: nothing of this kind is there.
    """
    events = json.loads(Path(path).read_text())["traceEvents"]
    names = {
        event["pid"]: event["args"]["name"]
        for event in events
        if event["ph"] == "M" and event["args"]["name"].startswith(f"{kind}, rank ")
    }
    if not names:
        raise ValueError(f"{path} has no steps of {kind!r}")
    slices = [event for event in events if event["ph"] == "X" and event["pid"] in names]
    first = [event for event in slices if event["name"] == "step" and event["pid"] == min(names)]
    step = sorted(first, key=lambda event: event["dur"])[len(first) // 2]
    begin, end = step["ts"], step["ts"] + step["dur"]
    ranks = {name: [] for _, name in sorted(names.items())}
    for event in slices:
        middle = event["ts"] + event["dur"] / 2
        if begin <= middle <= end:
            ranks[names[event["pid"]]].append(
                Slice(event["name"], event["ts"] - begin, event["ts"] + event["dur"] - begin)
            )
    return ranks


def _rectangle(left, top, width, height, color, title):
    return (
        f'<rect x="{left:.1f}" y="{top}" width="{max(width, 0.5):.1f}" height="{height}" '
        f'fill="{color}"><title>{escape(title)}</title></rect>'
    )


def _text(left, top, text, size=12):
    return f'<text x="{left:.1f}" y="{top}" font-size="{size}">{escape(text)}</text>'


def _draw_rank(name, slices, top, scale):
    """The lines of one rank: its step, and the exchanges in it."""
    drawn = [_text(4, top + 15, name.rpartition(", ")[2])]
    for one in sorted(slices, key=lambda one: one.name != "step"):
        left, width = _LEFT + one.begin * scale, (one.end - one.begin) * scale
        title = f"{one.name}: {(one.end - one.begin) / 1e3:.3f} ms"
        if one.name == "step":
            drawn.append(_rectangle(left, top, width, _LINE, _STEP_COLOR, title))
            continue
        color = next(color for words, color in _COLORS.items() if one.name.endswith(words))
        drawn.append(_rectangle(left, top + 4, width, _LINE - 8, color, title))
        if one.name.endswith("is taken"):
            exchange = one.name.split()[0].removeprefix("SokExchange")
            drawn.append(_text(left + width + 3, top + 15, exchange.lower(), 10))
    return drawn


def draw(steps):
    """The SVG of [(title, what read_step gives)], all in the same scale."""
    longest = max(one.end for _, ranks in steps for slices in ranks.values() for one in slices)
    scale = (_WIDTH - _LEFT - 10) / longest
    drawn, top = [], 20
    for words, color in _COLORS.items():
        left = 10 + 220 * list(_COLORS).index(words)
        drawn += [_rectangle(left, top - 10, 12, 12, color, words), _text(left + 16, top, words)]
    for title, ranks in steps:
        top += _GAP
        drawn.append(_text(4, top, title, 14))
        top += 8
        for name, slices in ranks.items():
            drawn += _draw_rank(name, slices, top, scale)
            top += _LINE + 6
    for millisecond in range(int(longest / 1e3) + 1):
        left = _LEFT + millisecond * 1e3 * scale
        drawn += [
            f'<line x1="{left:.1f}" y1="34" x2="{left:.1f}" y2="{top}" stroke="#999999" '
            'stroke-dasharray="2 3"/>',
            _text(left - 3, top + 14, f"{millisecond} ms", 10),
        ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{top + 24}" '
        'font-family="sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(drawn)
        + "\n</svg>\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", help="timelines")
    parser.add_argument("--kind", default="1 layers", help="of steps, as the table names it")
    parser.add_argument("--out", required=True, help="the SVG file")
    arguments = parser.parse_args()
    steps = [(Path(file).stem, read_step(file, arguments.kind)) for file in arguments.files]
    Path(arguments.out).write_text(draw(steps))


if __name__ == "__main__":
    main()
