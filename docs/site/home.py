# SPDX-License-Identifier: Apache-2.0
"""The first screen of the site: parts of the README, put into home.md."""

from __future__ import annotations

import pathlib
import re

from docs.site.outside import ROOT, linked

TEMPLATE = pathlib.Path(__file__).with_name("home.md")


def first_screen() -> str:
    """What it is, for whom, the command that installs, an example, and what is gained."""
    title, *sections = re.split(r"^## ", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    by_heading = {text.partition("\n")[0]: text for text in sections}
    template = TEMPLATE.read_text().replace("](../", "](")  # it becomes a page of docs/
    return template.format(
        introduction=_text(title),
        install=_block(by_heading["Install"]),
        example=f"```python\n{_block(by_heading['An example'])}\n```",
        gains=_text(by_heading["What you gain"]),
    )


def _text(section):
    """What is below its heading, with links for the page of docs/."""
    return linked(section.partition("\n")[2].strip(), "index.md", "README.md")


def _block(section):
    """The text of its first fenced block."""
    return re.search(r"^```\w*\n(.*?)\n```$", section, re.MULTILINE | re.DOTALL)[1]
