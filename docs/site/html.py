# SPDX-License-Identifier: Apache-2.0
"""HTML: what a page loads and leads to, and text that only looks like a tag."""

from __future__ import annotations

import pathlib
import re

_LOADED = re.compile(
    r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\s\"'>]+)"
)
_LINK = re.compile(r"<(?:a|img|link|script)\b[^>]*?\b(?:href|src)=\"([^\"?#]+)")
_CODE = re.compile(r"<(pre|code|script|style)\b.*?</\1>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_MARKUP = re.compile(r"\]\([\w./#:-]+\)|```|^ *(?:=== |:::)|(?<!\S)\*\*\w", re.MULTILINE)
_CODE_OR_MARKUP = re.compile(r"```.*?```|`[^`]*`|<(?=\w)|\b__\w+?__\b", re.DOTALL)


def loaded_from_elsewhere(html: str) -> list[str]:
    """The addresses at other hosts of scripts, styles, pictures and frames; not those of links."""
    return _LOADED.findall(html)


def dead_links(page: pathlib.Path) -> list[str]:
    """The targets of links and pictures of a built page that are no files, other hosts aside."""
    targets = _LINK.findall(page.read_text())
    inside = [target for target in targets if not re.match(r"\w+:|//", target)]
    return [target for target in inside if not (page.parent / target).exists()]


def raw_markup(html: str) -> list[str]:
    """Markdown that a page shows as text; that in code aside."""
    return _MARKUP.findall(_TAG.sub("", _CODE.sub("", html)))


def as_text(docstring: str) -> str:
    """The docstring without markup by chance: names in angle brackets, and with underscores."""
    return _CODE_OR_MARKUP.sub(_escaped, docstring)


def _escaped(match):
    found = match[0]
    return found if found.startswith("`") else found.replace("<", "&lt;").replace("_", r"\_")
