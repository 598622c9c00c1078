# SPDX-License-Identifier: Apache-2.0
"""Checks of values that scripts give to options."""

import math
import operator
import os


def checked_count(argument, value, least=0):
    """`value` as an int.

    Raises:
      ValueError: it is none, or below `least`.
    """
    try:
        count = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = None
    if count is None or count < least:
        raise ValueError(f"{argument} must be an int >= {least}, got {value!r}")
    return count


def checked_number(argument, value):
    """`value` as a float.

    Raises:
      ValueError: it is no number, or no finite one.
    """
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{argument} must be a finite number, got {value!r}")
    return number


def checked_text(argument, value):
    """`value`, a string or None.

    Raises:
      ValueError: it is something else.
    """
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"{argument} must be a string or None, got {value!r}")
    return value
