# SPDX-License-Identifier: Apache-2.0
"""Writes benchmarks/history/ratios.md: `python -m docs.generators.ratios_page`."""

from __future__ import annotations

import pathlib

from benchmarks import kept

PAGE = pathlib.Path(__file__).parents[2] / "benchmarks" / "history" / "ratios.md"
_PICTURE = "../../docs/pictures/history.svg"
_BEGIN = f"""# Ratios over time

How many times as fast as others each run of `make bench` was: the geometric mean over the steps of
a section, which ran side by side. Ratios of different machines can be compared, milliseconds not.

![Ratios by run, of each section of the benchmark and each other library]({_PICTURE})
"""
_END = """
The files are in [figures](figures). After `make bench` has added one,
`python -m docs.generators.pictures` and `python -m docs.generators.ratios_page` write picture and
page anew.
"""


def page(runs: list[kept.Run]) -> str:
    """The page for any number of runs, oldest first."""
    machines = [f"- {run.date}, {run.commit}: {_circumstances(run)}" for run in runs]
    return "\n".join([_BEGIN, *kept.table(runs), "", *machines, _END])


def _circumstances(run: kept.Run) -> str:
    versions = ", ".join(f"{library} {version}" for library, version in run.versions.items())
    return f"{run.machine}; {versions}"


if __name__ == "__main__":
    PAGE.write_text(page(kept.read()))
