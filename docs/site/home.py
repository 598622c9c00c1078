# SPDX-License-Identifier: Apache-2.0
"""The first screen of the site: parts of the README, put into home.md."""

from __future__ import annotations

import pathlib
import re
import textwrap

from docs.site.outside import ROOT

TEMPLATE = pathlib.Path(__file__).with_name("home.md")


def first_screen() -> str:
    """What it is, for whom, the command that installs, and an example of each face."""
    title, *sections = re.split(r"^## ", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    by_heading = {text.partition("\n")[0]: text for text in sections}
    template = TEMPLATE.read_text().replace("](../", "](")  # it becomes a page of docs/
    return template.format(
        introduction=title.partition("\n")[2].strip(),
        install=_block(by_heading["Install"]).strip(),
        sok=_indented(by_heading["SparseOperationKit"]),
        deeprec=_indented(by_heading["DeepRec"]),
        distributed_embeddings=_indented(by_heading["distributed-embeddings"]),
    )


def _block(section):
    """The text of its first fenced block."""
    return re.search(r"^```\w*\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[1]


def _indented(section):
    return textwrap.indent(f"```python\n{_block(section)}```", "    ")
