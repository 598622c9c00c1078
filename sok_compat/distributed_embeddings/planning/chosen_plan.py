# SPDX-License-Identifier: Apache-2.0
"""strategy='auto': places tables so that the busiest rank has the least to do in a step."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Sequence

from sok_compat.distributed_embeddings.planning.assignment import AUTO, STRATEGIES
from sok_compat.distributed_embeddings.planning.column_slices import even_widths
from sok_compat.distributed_embeddings.planning.plan import ColumnCuts, cut_columns
from sok_compat.distributed_embeddings.planning.workload import Load, TableCosts

_LEAST_GAIN = 0.02  # share of the busiest rank's time that cutting a table further must save
_MOST_CUTS = 200


@dataclasses.dataclass(frozen=True)
class ChosenPlan:
    """A plan and its reasons.

    copied, by_rows, by_columns: tables, in order.
    cuts: the ColumnCuts of the tables in by_columns, numbered by their places in that list.
    reasons: for each table, a few words.
    """

    copied: list[int]
    by_rows: list[int]
    by_columns: list[int]
    cuts: ColumnCuts
    reasons: dict[int, str]


def choose_plan(
    costs: Sequence[TableCosts],
    num_ranks: int,
    uncut: Container[int] = (),
    columns_only: bool = False,
    rank_bytes: float | None = None,
) -> ChosenPlan:
    """Returns the ChosenPlan.

    A table is copied if that costs less than requests for its rows, and cut by rows if it takes
    more than half of a rank's memory. All others are placed, the most expensive first, on the rank
    with the least to do, and cut by columns while that makes the busiest rank's step shorter. If
    another strategy is expected to be faster for these, its cuts are taken.

    Args:
      num_ranks: number of ranks, at least 2.
      uncut: tables that can only be copied.
      columns_only: whether no table may be copied or cut by rows.
      rank_bytes: most bytes of tables on a rank, or None if there is no limit.

    Raises:
      ValueError: the tables need more than rank_bytes.
    """
    reasons: dict[int, str] = {}
    copied: list[int] = []
    by_rows: list[int] = []
    by_columns: list[int] = []
    for table, cost in enumerate(costs):
        kind, reasons[table] = _kind(cost, num_ranks, table in uncut, columns_only, rank_bytes)
        {"copied": copied, "rows": by_rows, "columns": by_columns}[kind].append(table)
    base = Load()
    for table in copied:
        base += costs[table].of_copy()
    for table in by_rows:
        base += costs[table].of_rows()
    packing = _Packing([costs[table] for table in by_columns], num_ranks, base, rank_bytes)
    cuts, name = packing.best()
    for place, table in enumerate(by_columns):
        reasons[table] = _why(cuts, place, costs[table], name)
    return ChosenPlan(copied, by_rows, by_columns, cuts, reasons)


def _kind(
    cost: TableCosts, num_ranks: int, is_uncut: bool, columns_only: bool, rank_bytes: float | None
) -> tuple[str, str]:
    if columns_only:
        return "columns", ""
    if is_uncut:
        return "copied", "its layer cannot be cut"
    copy, owner = cost.of_copy(), cost.of_owner(cost.columns)
    requester = cost.of_requester(cost.columns)
    requested = (owner.seconds + (num_ranks - 1) * requester.seconds) / num_ranks
    if copy.seconds < requested:
        return "copied", (
            f"summing its gradient takes {_time(copy.seconds)} on each rank, requesting its rows "
            f"{_time(requested)}"
        )
    if rank_bytes is not None and owner.table_bytes > rank_bytes / 2:
        return "rows", f"its {_size(owner.table_bytes)} are more than half of a rank's memory"
    return "columns", ""


class _Packing:
    """Slices of tables, packed onto ranks that already have a base load."""

    def __init__(
        self, costs: list[TableCosts], num_ranks: int, base: Load, rank_bytes: float | None
    ) -> None:
        self._costs, self._num_ranks = costs, num_ranks
        self._base, self._rank_bytes = base, rank_bytes

    def best(self) -> tuple[ColumnCuts, str]:
        """Returns (ColumnCuts, the name of their strategy)."""
        shapes = [(cost.rows, cost.columns) for cost in self._costs]
        candidates = [(self._cut_further(), AUTO)]
        for name in STRATEGIES:
            if name != AUTO and shapes:
                candidates.append((cut_columns(shapes, self._num_ranks, name), name))
        cuts, name = min(candidates, key=lambda candidate: self._judged(candidate[0]))
        over = self._bytes_over(cuts)
        if self._rank_bytes is not None and over > 0:
            raise ValueError(
                f"the tables need {_size(over)} more on a rank than the {_size(self._rank_bytes)} "
                "of rank_bytes: give it more ranks, or leave rank_bytes out"
            )
        return cuts, name

    def loads(self, cuts: ColumnCuts) -> list[Load]:
        """Returns the Load of each rank."""
        loads = [self._base] * self._num_ranks
        left = [list(widths) for widths in cuts.widths]
        for rank, tables in enumerate(cuts.tables_of_ranks):
            for table in dict.fromkeys(tables):
                width = sum(left[table].pop(0) for _ in range(tables.count(table)))
                owner, requester = self._pair(table, width)
                loads = [
                    load + (owner if other == rank else requester)
                    for other, load in enumerate(loads)
                ]
        return loads

    def _pair(self, table: int, width: float) -> tuple[Load, Load]:
        return self._costs[table].of_owner(width), self._costs[table].of_requester(width)

    def _bytes_over(self, cuts: ColumnCuts) -> float:
        if self._rank_bytes is None:
            return 0.0
        return max(load.table_bytes for load in self.loads(cuts)) - self._rank_bytes

    def _judged(self, cuts: ColumnCuts) -> tuple[float, float]:
        """The cost to minimize: bytes over the limit, then the busiest rank's time."""
        seconds = max(load.seconds for load in self.loads(cuts))
        return max(self._bytes_over(cuts), 0.0), seconds

    def _cut_further(self) -> ColumnCuts:
        pieces = [1] * len(self._costs)
        best = self._packed(pieces)
        judged = self._judged(best)
        done: set[int] = set()
        for _ in range(_MOST_CUTS):
            table = self._to_be_cut(best, pieces, done)
            if table is None:
                break
            most = min(self._num_ranks, self._costs[table].columns)
            tried = [*pieces]
            tried[table] = min(2 * pieces[table], most)
            packed = self._packed(tried)
            now = self._judged(packed)
            if now[0] < judged[0] or (
                now[0] == judged[0] and now[1] < judged[1] * (1 - _LEAST_GAIN)
            ):
                best, judged, pieces = packed, now, tried
            else:
                done.add(table)
        return best

    def _to_be_cut(self, cuts: ColumnCuts, pieces: list[int], done: set[int]) -> int | None:
        """The most expensive table of the busiest rank that can be cut further."""
        loads = self.loads(cuts)
        busiest = max(range(self._num_ranks), key=lambda rank: loads[rank].seconds)
        can_be = [
            table
            for table in set(cuts.tables_of_ranks[busiest]) - done
            if pieces[table] < min(self._num_ranks, self._costs[table].columns)
        ]
        return max(can_be, key=lambda table: (self._time_of(table, pieces), table), default=None)

    def _time_of(self, table, pieces):
        return self._pair(table, self._costs[table].columns / pieces[table])[0].seconds

    def _packed(self, pieces: list[int]) -> ColumnCuts:
        widths = [even_widths(cost.columns, number) for cost, number in zip(self._costs, pieces)]
        slices = [
            (self._pair(table, width), -table)
            for table, of_table in enumerate(widths)
            for width in of_table
        ]
        slices.sort(key=lambda one: (one[0][0].seconds, one[1]), reverse=True)
        extra = [0.0] * self._num_ranks  # seconds beyond what all have
        sizes = [self._base.table_bytes] * self._num_ranks
        ranks: list[list[int]] = [[] for _ in range(self._num_ranks)]
        for (owner, requester), minus_table in slices:
            rank = self._rank_for(ranks, extra, sizes, -minus_table, owner.table_bytes)
            ranks[rank].append(-minus_table)
            extra[rank] += owner.seconds - requester.seconds
            sizes[rank] += owner.table_bytes
        return ColumnCuts(widths, [sorted(tables) for tables in ranks])

    def _rank_for(
        self,
        ranks: list[list[int]],
        extra: list[float],
        sizes: list[float],
        table: int,
        num_bytes: float,
    ) -> int:
        """The rank with the least to do, of those with memory left and no slice of the table."""

        def rating(rank: int) -> tuple:
            limit = self._rank_bytes
            over = 0.0 if limit is None else max(0.0, sizes[rank] + num_bytes - limit)
            return table in ranks[rank], over, extra[rank], sizes[rank], rank

        return min(range(self._num_ranks), key=rating)


def _why(cuts: ColumnCuts, place: int, cost: TableCosts, name: str) -> str:
    num_ranks = sum(place in tables for tables in cuts.tables_of_ranks)
    seconds = _time(cost.of_owner(cost.columns).seconds)
    if name != AUTO:
        return f"placed as by '{name}', the best of all placements; {seconds} a step"
    if num_ranks == 1:
        return f"takes {seconds} a step, on the rank that had the least to do"
    return f"would take one rank {seconds} a step, more than its share: cut into {num_ranks}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} us"


def _size(num_bytes: float) -> str:
    return f"{num_bytes / 2**20:.4g} MiB"
