# SPDX-License-Identifier: Apache-2.0
"""Cuts tables into slices of columns. No ranks, no layers: numbers only.

Sizes are numbers of floats, rows times columns.
"""

from __future__ import annotations

from collections.abc import Sequence


def slices_of_tables(
    shapes: Sequence[tuple[int, int]], num_ranks: int, threshold: float | None = None
) -> list[list[int]]:
    """Returns the widths of the slices of each table (rows, columns), from its first column to its
    last.

    Args:
      num_ranks: most slices of a table.
      threshold: size above which a table is halved, until no slice is larger. None: with fewer
        tables than ranks, the size that gives every rank a slice; else no table is cut.

    Returns:
      [[columns of a slice]] for each table. If the columns do not divide evenly, the first slices
      are one column wider.
    """
    if threshold is None:
        threshold = _threshold_for([rows * columns for rows, columns in shapes], num_ranks)
    return [
        even_widths(columns, _num_slices(rows * columns, min(num_ranks, columns), threshold))
        for rows, columns in shapes
    ]


def _threshold_for(table_sizes: Sequence[int], num_ranks: int) -> int | None:
    """The threshold that halves the largest tables until there are as many slices as ranks.

    None if there are enough tables. It applies to all tables, so tables of one size are all cut.
    """
    threshold, sizes = None, list(table_sizes)
    while sizes and len(sizes) < num_ranks:
        largest = max(sizes)
        threshold = largest - 1
        sizes.remove(largest)
        sizes += [largest // 2] * 2
    return threshold


def _num_slices(size: float, most: int, threshold: float | None) -> int:
    number = 1
    while threshold is not None and size > threshold and number < most:
        number, size = 2 * number, size / 2
    return min(number, most)


def even_widths(columns: int, num_slices: int) -> list[int]:
    """Returns the widths of slices that differ by one column at most, the wider ones first."""
    width, wider = divmod(columns, num_slices)
    return [width + 1] * wider + [width] * (num_slices - wider)
