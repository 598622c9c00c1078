# SPDX-License-Identifier: Apache-2.0
"""Writes the pages of names from their tables: `python -m docs.generators.names_page`."""

import collections
import pathlib
import textwrap

from docs.generators import deeprec_table, distributed_embeddings_table
from docs.generators.names_table import BEHAVIOUR, SECTIONS, entries

FOLDER = pathlib.Path(__file__).parents[1] / "use"
PAGE = FOLDER / "names.md"
DEEPREC_PAGE = FOLDER / "porting_deeprec.md"
EMBEDDINGS_PAGE = FOLDER / "porting_distributed_embeddings.md"

INTRODUCTION = """\
# Names of SparseOperationKit 1.x and 2

Every public name and module path of SparseOperationKit 1.1, and those of 2.1 but for its raw ops,
under `sok` after `import sok_compat as sok` or `import sparse_operation_kit as sok`; other module
paths of a name lead to the same object.
Of {total} names and paths, {works} work as there (✓), {differs} differ as said below (≠), and
{refused} are refused with the error given (✗); ⊕ is new.

`python -m docs.generators.names_page` makes this page from `docs/generators/names_table.py`.
"""


def counts():
    """{state: number of names}."""
    return collections.Counter(entry.state for entry in entries() for _ in entry.names)


def page():
    """The text of docs/use/names.md."""
    numbers = counts()
    total = sum(numbers[state] for state in ("works", "differs", "refused"))
    parts = [INTRODUCTION.format(total=total, **numbers), *_sections(SECTIONS)]
    parts.append(f"## Beside names\n\n{_list(BEHAVIOUR)}")
    return "\n".join(parts)


def deeprec_page():
    """The text of docs/use/porting_deeprec.md."""
    return _page_of(deeprec_table)


def embeddings_page():
    """The text of docs/use/porting_distributed_embeddings.md."""
    return _page_of(distributed_embeddings_table)


def _page_of(table):
    behaviour = f"## Beside names\n\n{_list(table.BEHAVIOUR)}"
    return "\n".join([table.INTRODUCTION, *_sections(table.SECTIONS), behaviour])


def _sections(sections):
    """The text of each; sections: {heading: [Entry]}."""
    parts = []
    for heading, section in sections.items():
        parts.append(f"## {heading}\n\n{list_of(section)}")
    return parts


def list_of(section):
    """The entries of a section as a list."""
    rows = [(_code(entry.shown_names), entry.state, _note(entry)) for entry in section]
    return _list(_joined(rows))


def _code(names):
    return ", ".join(f"`{name}`" for name in names)


def _note(entry):
    if entry.error is NotImplementedError:  # the error has the note's text
        return "raises `NotImplementedError`, and says what to use instead"
    return entry.note


def _joined(rows):
    """Rows that differ in the name only become one."""
    joined = {}
    for name, state, note in rows:
        joined.setdefault((state, note), []).append(name)
    return [(", ".join(names), *rest) for rest, names in joined.items()]


_SIGNS = {"works": "✓", "differs": "≠", "refused": "✗", "new": "⊕"}


def _list(rows):
    """A line for each name: the sign of its state, and the note."""
    lines = [f"- {_SIGNS[state]} {name}" + f": {note}" * bool(note) for name, state, note in rows]
    return "\n".join(map(_wrapped, lines)) + "\n"


def _wrapped(line):
    return textwrap.fill(
        line, 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


if __name__ == "__main__":
    PAGE.write_text(page())
    DEEPREC_PAGE.write_text(deeprec_page())
    EMBEDDINGS_PAGE.write_text(embeddings_page())
