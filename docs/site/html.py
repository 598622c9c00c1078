# SPDX-License-Identifier: Apache-2.0
"""HTML: what a page loads from other hosts, and text that only looks like a tag."""

from __future__ import annotations

import re

_LOADED = re.compile(
    r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\s\"'>]+)"
)
_CODE_OR_TAG = re.compile(r"```.*?```|`[^`]*`|<(?=\w)", re.DOTALL)


def loaded_from_elsewhere(html: str) -> list[str]:
    """The addresses at other hosts of scripts, styles, pictures and frames; not those of links."""
    return _LOADED.findall(html)


def as_text(docstring: str) -> str:
    """The docstring with what looks like the beginning of a tag escaped, outside of code."""
    return _CODE_OR_TAG.sub(lambda match: "&lt;" if match[0] == "<" else match[0], docstring)
