# SPDX-License-Identifier: Apache-2.0
"""Results as Markdown tables."""

import dataclasses

OURS = "sok_compat"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The same job done by several."""

    what: str
    seconds: dict[str, float]  # by contender, ours first
    bars: dict[str, float] = dataclasses.field(default_factory=dict)  # least ratio, by contender

    def ratios(self):
        """{contender: its time over ours}."""
        ours, *others = self.seconds
        return {name: self.seconds[name] / self.seconds[ours] for name in others}


def lines(headings, rows) -> list[str]:
    """A Markdown table."""
    cells = [[str(cell) for cell in row] for row in (headings, ["---"] * len(headings), *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headings))]
    return ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |" for row in cells]


def comparison_lines(comparisons) -> list[str]:
    """One line for each: milliseconds, and how many times as fast we are (the bar)."""
    others = list(dict.fromkeys(name for one in comparisons for name in one.ratios()))
    headings = ["", f"{OURS}, ms"]
    for name in others:
        headings += [f"{name}, ms", "times as fast"]
    rows = []
    for one in comparisons:
        row = [one.what, f"{next(iter(one.seconds.values())) * 1e3:.2f}"]
        for name in others:
            row += _cells(one, name)
        rows.append(row)
    return lines(headings, rows)


def _cells(comparison, name):
    if name not in comparison.seconds:
        return ["", ""]
    bar = comparison.bars.get(name)
    ratio = f"{comparison.ratios()[name]:.2f}" + (f" (bar {bar:g})" if bar else "")
    return [f"{comparison.seconds[name] * 1e3:.2f}", ratio]
