# SPDX-License-Identifier: Apache-2.0
"""The reference of the site: pages of the public names, and modules of them for mkdocstrings.

mkdocstrings shows a name under the path at which it finds it. So each face gets modules that import
its public names from where the sources define them; nothing runs these modules.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re

from docs.generators import deeprec_table, distributed_embeddings_table, names_table
from docs.generators.entries import Entry
from docs.generators.homes import home
from docs.generators.names_page import list_of

_SOK_2 = "SparseOperationKit 2: "
_ADDED = "Added by sok_compat"
_OTHERS = "Without a docstring of their own:\n\n"


@dataclasses.dataclass(frozen=True)
class Reference:
    """A page of the reference: the names of a face."""

    title: str
    introduction: str
    names_page: str  # which says how each name differs; in docs/use
    sections: dict[str, list[Entry]]


REFERENCES = {  # {name of the page: it}
    "sparse_operation_kit_1": Reference(
        "SparseOperationKit 1.x",
        "`import sparse_operation_kit as sok`, or `import sok_compat as sok`. `HashTable` works "
        "without TensorFlow.",
        "names.md",
        {
            heading: section
            for heading, section in names_table.SECTIONS.items()
            if not heading.startswith(_SOK_2)
        },
    ),
    "sparse_operation_kit_2": Reference(
        "SparseOperationKit 2",
        "`import sparse_operation_kit as sok`, or `import sok_compat as sok`; the older "
        "`sparse_operation_kit.experiment` has the same names. "
        "[Other names](sparse_operation_kit_1.md) of `sok` are those of 1.x.",
        "names.md",
        {
            heading: section
            for heading, section in names_table.SECTIONS.items()
            if heading.startswith(_SOK_2)
        },
    ),
    "deeprec": Reference(
        "DeepRec",
        "`import tensorflow as tf` in a script that `python -m sok_compat.run` runs, or "
        "`import sok_compat.deeprec as tf`. All other names of `tf` are those of `tf.compat.v1`.",
        "porting_deeprec.md",
        deeprec_table.SECTIONS,
    ),
    "distributed_embeddings": Reference(
        "distributed-embeddings",
        "`import distributed_embeddings`, or `from sok_compat import distributed_embeddings`.",
        "porting_distributed_embeddings.md",
        distributed_embeddings_table.SECTIONS,
    ),
}


def page(reference: Reference) -> str:
    """The Markdown of a page, with `:::` for what mkdocstrings puts in."""
    parts = [f"# {reference.title}\n\n{reference.introduction}\n"]
    for heading, section in reference.sections.items():
        there = [entry for entry in section if entry.state != "refused"]
        if there:
            parts += _section(heading, there, reference.names_page)
    return "\n".join(parts)


def _section(heading, entries, names_page):
    link = f"../use/{names_page}#{_anchor(heading)}"
    yield f"## {heading.removeprefix(_SOK_2).capitalize()}\n"
    if heading != _ADDED:
        yield f"[How they differ from the original]({link}).\n"
    others = []
    for entry in entries:
        with_home = [name for name in entry.shown_names if home(name)]
        yield from (f"::: {name}\n    options: {{heading_level: 3}}\n" for name in with_home)
        rest = [name for name in entry.shown_names if name not in with_home]
        if rest:
            others.append(dataclasses.replace(entry, paths=" ".join(rest)))
    if others:
        yield (_OTHERS if len(others) < len(entries) else "") + _moved(list_of(others))


def _anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _moved(text):
    """Links of docs/use/ for a page of another folder."""
    return text.replace("](", "](../use/").replace("](../use/#", "](../use/porting_deeprec.md#")


def write_modules(folder: pathlib.Path) -> None:
    """Writes the modules that import the public names."""
    imports = {}
    for reference in REFERENCES.values():
        for section in reference.sections.values():
            for name in (name for entry in section for name in entry.shown_names):
                module, _, last = name.rpartition(".")
                found = home(name)
                if found:
                    imports.setdefault(module, []).append(
                        "from {} import {} as {}\n".format(*found, last)
                    )
    for module, lines in imports.items():
        place = folder.joinpath(*module.split("."))
        place.mkdir(parents=True, exist_ok=True)
        (place / "__init__.py").write_text("".join(lines))
        for parent in place.relative_to(folder).parents:
            if parent.name:
                (folder / parent / "__init__.py").touch()
