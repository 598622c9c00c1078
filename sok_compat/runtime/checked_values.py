# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments."""

from __future__ import annotations

import math
import operator
import os
from typing import Any


def checked_count(argument: str, value: Any, least: int = 0) -> int:
    """`value` as an int.

    Raises:
      ValueError: it is not an int, or not in [least, 2^63).
    """
    try:
        count = least - 1 if isinstance(value, bool) else operator.index(value)
    except (AttributeError, TypeError):  # the former from tensors of a graph
        count = least - 1
    if not least <= count < 1 << 63:
        limit = "" if count < least else " and < 2^63"
        raise ValueError(f"{argument} must be an int >= {least}{limit}, got {value!r}")
    return count


def checked_number(argument: str, value: Any) -> float:
    """`value` as a float.

    Raises:
      ValueError: it is not a finite number.
    """
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{argument} must be a finite number, got {value!r}")
    return number


def checked_text(argument: str, value: Any) -> str | os.PathLike[str] | None:
    """`value`: a string, path or None.

    Raises:
      ValueError: it is something else.
    """
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"{argument} must be a string or None, got {value!r}")
    return value
