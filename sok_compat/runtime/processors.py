# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a host share its processors."""

from __future__ import annotations

import fractions
import os
from collections.abc import Iterable


def own_processors() -> str:
    """The processors that this process may run on, as a hexadecimal mask for other ranks."""
    return f"{sum(1 << number for number in os.sched_getaffinity(0)):x}"


def share_of_processors(own: str, of_host: Iterable[str]) -> fractions.Fraction | int:
    """Number of processors of a rank, in which one shared by n ranks counts as 1/n, from the masks
    of all ranks on its host, including its own."""
    masks = [int(word, 16) for word in of_host]
    mine = int(own, 16)
    return sum(
        fractions.Fraction(1, sum(mask >> number & 1 for mask in masks))
        for number in range(mine.bit_length())
        if mine >> number & 1
    )
