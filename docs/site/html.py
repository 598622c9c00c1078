# SPDX-License-Identifier: Apache-2.0
"""HTML: what a page loads from other hosts, and text that only looks like a tag."""

from __future__ import annotations

import re

_LOADED = re.compile(
    r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\s\"'>]+)"
)
_CODE_OR_MARKUP = re.compile(r"```.*?```|`[^`]*`|<(?=\w)|\b__\w+?__\b", re.DOTALL)


def loaded_from_elsewhere(html: str) -> list[str]:
    """The addresses at other hosts of scripts, styles, pictures and frames; not those of links."""
    return _LOADED.findall(html)


def as_text(docstring: str) -> str:
    """The docstring without markup by chance: names in angle brackets, and with underscores."""
    return _CODE_OR_MARKUP.sub(_escaped, docstring)


def _escaped(match):
    found = match[0]
    return found if found.startswith("`") else found.replace("<", "&lt;").replace("_", r"\_")
