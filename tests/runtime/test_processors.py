# SPDX-License-Identifier: Apache-2.0
"""A rank's part of its host's processors."""

import os
from fractions import Fraction

import pytest

from sok_compat.runtime.processors import own_processors, share_of_processors


@pytest.mark.parametrize(
    "own,of_host,expected",
    [
        ("ff", ["ff"], 8),
        ("ff", ["ff"] * 2, 4),
        ("3", ["3"] * 2, 1),
        ("1", ["1"] * 4, Fraction(1, 4)),
        ("7", ["7"] * 2, Fraction(3, 2)),
        ("3f", ["3f"] * 6, 1),
        ("f", ["f", "f0"], 4),  # each has been given its own
        ("f0", ["f", "f0"], 4),
        ("ff", ["ff", "f"], 6),  # four alone and half of four
        ("f", ["ff", "f"], 2),
        ("f" * 50, ["f" * 50] * 8, 25),  # more than a machine word
    ],
)
def test_a_part_of_each_processor_that_is_shared(own, of_host, expected):
    assert share_of_processors(own, of_host) == expected


def test_a_process_alone_has_each_processor_it_may_run_on():
    word = own_processors()
    assert share_of_processors(word, [word]) == len(os.sched_getaffinity(0))
