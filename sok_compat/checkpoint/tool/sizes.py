# SPDX-License-Identifier: Apache-2.0
"""Numbers in readable form."""

from __future__ import annotations


def bytes_text(count: float) -> str:
    """'3 bytes', '1.5 KiB', '20.0 GiB'."""
    if count < 1024:
        return f"{count} byte{'s' * (count != 1)}"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} TiB"


def counted(count: int, noun: str) -> str:
    """'1 key', '2 keys'."""
    return f"{count} {noun}{'s' * (count != 1)}"
