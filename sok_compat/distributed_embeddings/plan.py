# SPDX-License-Identifier: Apache-2.0
"""What a plan says of tables: values, without layers and without TensorFlow."""

import dataclasses

from sok_compat.distributed_embeddings.assignment import assign_slices
from sok_compat.distributed_embeddings.column_slices import slices_of_tables


@dataclasses.dataclass(frozen=True)
class TableSlice:
    """All rows, and some columns, of a table on one rank.

    table: which one, among those that are cut by columns.
    num_merged: neighbours that have come to one rank, and are one slice there.
    """

    table: int
    num_rows: int
    first_column: int
    num_columns: int
    num_merged: int = 1

    @property
    def size(self):
        """Floats in it."""
        return self.num_rows * self.num_columns


@dataclasses.dataclass(frozen=True)
class FusedTable:
    """Slices of a rank that are one table there: the rows of one after those of another.

    positions: of its slices among the rank's.
    slices: in that order.
    on_host: it stays in the host's memory.
    """

    positions: tuple[int, ...]
    slices: tuple[TableSlice, ...]
    on_host: bool

    @property
    def row_offsets(self):
        """The first row of each slice, and at the end the number of all rows."""
        offsets = [0]
        for one in self.slices:
            offsets.append(offsets[-1] + one.num_rows)
        return offsets

    @property
    def num_rows(self):
        """Of all slices."""
        return self.row_offsets[-1]

    @property
    def num_columns(self):
        """Of each slice."""
        return self.slices[0].num_columns


@dataclasses.dataclass(frozen=True)
class RankPlan:
    """What one rank has of the tables that are cut by columns.

    slices: in the rank's order, no two of one table.
    fused: what they are joined to, in the order of their first slices.
    """

    slices: tuple[TableSlice, ...]
    fused: tuple[FusedTable, ...]

    def place_of(self, position):
        """(index in `fused`, first row there) of the slice at that position."""
        for index, table in enumerate(self.fused):
            if position in table.positions:
                return index, table.row_offsets[table.positions.index(position)]
        raise IndexError(f"the rank has {len(self.slices)} slices, not one at {position}")


@dataclasses.dataclass(frozen=True)
class ColumnCuts:
    """Which ranks get which columns of tables.

    widths: of each table, its slices, from the first column to the last.
    tables_of_ranks: of each rank, the tables that it gets slices of, one item for each slice; the
      columns of a table go to ranks from left to right.
    """

    widths: list
    tables_of_ranks: list


def cut_columns(shapes, num_ranks, strategy, threshold=None):
    """The ColumnCuts of distributed-embeddings' own strategies.

    Args:
      shapes: [(rows, columns)] of the tables.
      num_ranks: of all.
      strategy: of assignment.STRATEGIES, not AUTO.
      threshold: of `slices_of_tables`.
    """
    widths = slices_of_tables(shapes, num_ranks, threshold)
    pieces = [
        (rows * width, table) for table, (rows, _) in enumerate(shapes) for width in widths[table]
    ]
    return ColumnCuts(widths, assign_slices(pieces, num_ranks, strategy))


def plan_columns(shapes, cuts, device_size=None, kinds=None):
    """A RankPlan for each rank; the same on all, without asking them.

    Args:
      shapes: [(rows, columns)] of the tables.
      cuts: the ColumnCuts.
      device_size: most floats of a rank that are on its device; None: all are.
      kinds: of each table, any values; only those of one kind are joined. None: all are alike.
    """
    kinds = [None] * len(shapes) if kinds is None else kinds
    left = [list(of_table) for of_table in cuts.widths]
    plans = []
    for tables in cuts.tables_of_ranks:
        slices = []
        for table in dict.fromkeys(tables):
            taken = [left[table].pop(0) for _ in range(tables.count(table))]
            end = shapes[table][1] - sum(left[table])
            first = end - sum(taken)
            slices.append(TableSlice(table, shapes[table][0], first, sum(taken), len(taken)))
        on_host = _on_host([one.size for one in slices], device_size)
        plans.append(RankPlan(tuple(slices), tuple(_fused(slices, on_host, kinds))))
    return plans


def _on_host(sizes, device_size):
    """Whether each of a rank's slices is in the host's memory: the largest are, those that the
    smaller ones leave no room for."""
    on_host, total = [False] * len(sizes), 0
    for position in sorted(range(len(sizes)), key=sizes.__getitem__):
        total += sizes[position]
        on_host[position] = device_size is not None and total > device_size
    return on_host


def _fused(slices, on_host, kinds):
    groups = {}
    for position, one in enumerate(slices):
        alone = position if on_host[position] else None
        groups.setdefault((one.num_columns, kinds[one.table], alone), []).append(position)
    for (_, _, alone), positions in groups.items():
        members = tuple(slices[position] for position in positions)
        yield FusedTable(tuple(positions), members, alone is not None)
