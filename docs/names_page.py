# SPDX-License-Identifier: Apache-2.0
"""Writes docs/names.md from docs/names_table.py: `python -m docs.names_page`."""

import collections
import pathlib

from docs.names_table import BEHAVIOUR, SECTIONS, entries

PAGE = pathlib.Path(__file__).with_name("names.md")

INTRODUCTION = """\
# Names of SparseOperationKit 1.x

Every public name and module path of SparseOperationKit 1.1, as found under `sok` after `import
sok_compat as sok` or `import sparse_operation_kit as sok`, and what became of it. Of {total} names
and paths, {works} work as there, {differs} differ in what the table says, and {refused} are refused
with the error and for the reason given.

This page is made by `python -m docs.names_page` from `docs/names_table.py`; tests hold it against
the package.
"""


def counts():
    """{state: number of names}."""
    return collections.Counter(entry.state for entry in entries() for _ in entry.names)


def page():
    """The text of docs/names.md."""
    numbers = counts()
    total = sum(numbers[state] for state in ("works", "differs", "refused"))
    parts = [INTRODUCTION.format(total=total, **numbers)]
    for heading, section in SECTIONS.items():
        rows = [(_code(entry.names), entry.state, entry.note) for entry in section]
        parts.append(f"## {heading}\n\n{_table(_joined(rows))}")
    parts.append(f"## Beside names\n\n{_table(BEHAVIOUR)}")
    return "\n".join(parts)


def _code(names):
    return ", ".join(f"`{name}`" for name in names)


def _joined(rows):
    """Rows that differ in the name only become one."""
    joined = {}
    for name, state, note in rows:
        joined.setdefault((state, note), []).append(name)
    return [(", ".join(names), *rest) for rest, names in joined.items()]


def _table(rows):
    lines = ["| name | state | what to know |", "|---|---|---|"]
    lines += [f"| {name} | {state} | {note} |" for name, state, note in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
