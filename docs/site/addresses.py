# SPDX-License-Identifier: Apache-2.0
"""What a page loads from other hosts."""

from __future__ import annotations

import re

_LOADED = re.compile(
    r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\s\"'>]+)"
)


def loaded_from_elsewhere(html: str) -> list[str]:
    """The addresses at other hosts of scripts, styles, pictures and frames; not those of links."""
    return _LOADED.findall(html)
