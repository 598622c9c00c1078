# SPDX-License-Identifier: Apache-2.0
"""Writes the pages of names from their tables: `python -m docs.names_page`."""

import collections
import pathlib

from docs import deeprec_table, distributed_embeddings_table
from docs.names_table import BEHAVIOUR, SECTIONS, entries

PAGE = pathlib.Path(__file__).with_name("names.md")
DEEPREC_PAGE = pathlib.Path(__file__).with_name("porting_deeprec.md")
EMBEDDINGS_PAGE = pathlib.Path(__file__).with_name("porting_distributed_embeddings.md")

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
    parts = [INTRODUCTION.format(total=total, **numbers), *_sections(SECTIONS)]
    parts.append(f"## Beside names\n\n{_table(BEHAVIOUR)}")
    return "\n".join(parts)


def deeprec_page():
    """The text of docs/porting_deeprec.md."""
    return _page_of(deeprec_table)


def embeddings_page():
    """The text of docs/porting_distributed_embeddings.md."""
    return _page_of(distributed_embeddings_table)


def _page_of(table):
    behaviour = f"## Beside names\n\n{_table(table.BEHAVIOUR)}"
    return "\n".join([table.INTRODUCTION, *_sections(table.SECTIONS), behaviour])


def _sections(sections):
    """The text of each; sections: {heading: [Entry]}."""
    parts = []
    for heading, section in sections.items():
        rows = [(_code(entry.names), entry.state, entry.note) for entry in section]
        parts.append(f"## {heading}\n\n{_table(_joined(rows))}")
    return parts


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
    DEEPREC_PAGE.write_text(deeprec_page())
    EMBEDDINGS_PAGE.write_text(embeddings_page())
