# SPDX-License-Identifier: Apache-2.0
"""Into how many slices of columns tables are cut. No ranks, no layers: numbers alone.

Sizes are numbers of floats, rows times columns.
"""


def slices_of_tables(shapes, num_ranks, threshold=None):
    """The widths of each table's slices, from its first column to its last.

    Args:
      shapes: [(rows, columns)] of the tables.
      num_ranks: no table gets more slices.
      threshold: tables above it are halved until no slice is. None: with fewer tables than ranks,
        what gives every rank a slice; else no table is cut.

    Returns:
      [[columns of a slice]] for each table; the first slices are one column wider where the number
      of columns is no multiple of theirs.
    """
    if threshold is None:
        threshold = _threshold_for([rows * columns for rows, columns in shapes], num_ranks)
    return [
        even_widths(columns, _num_slices(rows * columns, min(num_ranks, columns), threshold))
        for rows, columns in shapes
    ]


def _threshold_for(sizes, num_ranks):
    """That by which the largest tables are halved until there are as many slices as ranks; None
    where there are. It holds for all tables, so equal ones are all cut."""
    threshold, sizes = None, list(sizes)
    while sizes and len(sizes) < num_ranks:
        largest = max(sizes)
        threshold = largest - 1
        sizes.remove(largest)
        sizes += [largest // 2] * 2
    return threshold


def _num_slices(size, most, threshold):
    number = 1
    while threshold is not None and size > threshold and number < most:
        number, size = 2 * number, size / 2
    return min(number, most)


def even_widths(columns, num_slices):
    """Of slices that differ by one column at most, the wider ones first."""
    width, wider = divmod(columns, num_slices)
    return [width + 1] * wider + [width] * (num_slices - wider)
