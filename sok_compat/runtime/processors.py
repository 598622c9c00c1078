# SPDX-License-Identifier: Apache-2.0
"""The processors that ranks of one host share."""

import fractions
import os


def own_processors():
    """Those that this process may run on, in a word for other ranks."""
    return f"{sum(1 << number for number in os.sched_getaffinity(0)):x}"


def share_of_processors(own, of_host):
    """How many processors a rank has, where it shares some.

    Args:
      own: the word of this rank.
      of_host: the words of all ranks on its host, its own among them.

    Returns:
      The sum over its processors of one part of each that is shared, a Fraction.
    """
    masks = [int(word, 16) for word in of_host]
    mine = int(own, 16)
    return sum(
        fractions.Fraction(1, sum(mask >> number & 1 for mask in masks))
        for number in range(mine.bit_length())
        if mine >> number & 1
    )
