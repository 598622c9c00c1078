# SPDX-License-Identifier: Apache-2.0
"""The values that make up a plan, without layers and without TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Sequence

from sok_compat.distributed_embeddings.planning.assignment import assign_slices
from sok_compat.distributed_embeddings.planning.column_slices import slices_of_tables


@dataclasses.dataclass(frozen=True)
class RowsOfInput:
    """The place of the rows of an input's table.

    called: names the table and the input in messages.
    num_rows: rows of the table.
    first_row: its first row in the joined table.
    """

    called: str
    num_rows: int
    first_row: int = 0


@dataclasses.dataclass(frozen=True)
class TableSlice:
    """All rows and some columns of a table, on one rank.

    table: its number among the tables cut by columns.
    num_merged: number of adjacent slices that came to one rank and were merged into this one.
    """

    table: int
    num_rows: int
    first_column: int
    num_columns: int
    num_merged: int = 1

    @property
    def size(self) -> int:
        """Number of floats."""
        return self.num_rows * self.num_columns


@dataclasses.dataclass(frozen=True)
class FusedTable:
    """Slices of a rank that are joined into one table, the rows of one after those of another.

    positions: positions of its slices among the rank's.
    slices: the slices, in that order.
    on_host: whether it stays in the host's memory.
    """

    positions: tuple[int, ...]
    slices: tuple[TableSlice, ...]
    on_host: bool

    @property
    def row_offsets(self) -> list[int]:
        """The first row of each slice, and the number of all rows at the end."""
        offsets = [0]
        for one in self.slices:
            offsets.append(offsets[-1] + one.num_rows)
        return offsets

    @property
    def num_rows(self) -> int:
        """Rows of all slices."""
        return self.row_offsets[-1]

    @property
    def num_columns(self) -> int:
        """Columns of each slice."""
        return self.slices[0].num_columns


@dataclasses.dataclass(frozen=True)
class RankPlan:
    """One rank's share of the tables cut by columns.

    slices: in the rank's order, no two of one table.
    fused: the tables that the slices are joined into, in the order of their first slices.
    """

    slices: tuple[TableSlice, ...]
    fused: tuple[FusedTable, ...]

    def place_of(self, position: int) -> tuple[int, int]:
        """Returns (index in `fused`, first row there) of the slice at that position."""
        for index, table in enumerate(self.fused):
            if position in table.positions:
                return index, table.row_offsets[table.positions.index(position)]
        raise IndexError(f"the rank has {len(self.slices)} slices, not one at {position}")


@dataclasses.dataclass(frozen=True)
class ColumnCuts:
    """The assignment of columns to ranks.

    widths: for each table, the widths of its slices, from the first column to the last.
    tables_of_ranks: for each rank, the tables of its slices, one item for each slice; the columns
      of a table go to ranks from left to right.
    """

    widths: list[list[int]]
    tables_of_ranks: list[list[int]]


def cut_columns(
    shapes: Sequence[tuple[int, int]],
    num_ranks: int,
    strategy: str,
    threshold: float | None = None,
) -> ColumnCuts:
    """Returns the ColumnCuts of tables (rows, columns) by one of distributed-embeddings' own
    strategies, with a threshold as of `slices_of_tables`."""
    widths = slices_of_tables(shapes, num_ranks, threshold)
    pieces = [
        (rows * width, table) for table, (rows, _) in enumerate(shapes) for width in widths[table]
    ]
    return ColumnCuts(widths, assign_slices(pieces, num_ranks, strategy))


def plan_columns(
    shapes: Sequence[tuple[int, int]],
    cuts: ColumnCuts,
    device_size: float | None = None,
    kinds: Sequence[Hashable] | None = None,
) -> list[RankPlan]:
    """Returns a RankPlan for each rank. All ranks compute the same plans without communicating.

    Args:
      device_size: most floats on a rank's device, or None if there is no limit.
      kinds: the kind of each table, any value; only tables of one kind are joined. None: all are of
        one kind.
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


def _on_host(sizes: list[int], device_size: float | None) -> list[bool]:
    """Whether each of a rank's slices is in the host's memory: the largest, if they do not fit."""
    on_host, total = [False] * len(sizes), 0
    for position in sorted(range(len(sizes)), key=sizes.__getitem__):
        total += sizes[position]
        on_host[position] = device_size is not None and total > device_size
    return on_host


def _fused(
    slices: list[TableSlice], on_host: list[bool], kinds: Sequence[Hashable]
) -> Iterator[FusedTable]:
    groups: dict[tuple, list[int]] = {}
    for position, one in enumerate(slices):
        alone = position if on_host[position] else None
        groups.setdefault((one.num_columns, kinds[one.table], alone), []).append(position)
    for (_, _, alone), positions in groups.items():
        members = tuple(slices[position] for position in positions)
        yield FusedTable(tuple(positions), members, alone is not None)
