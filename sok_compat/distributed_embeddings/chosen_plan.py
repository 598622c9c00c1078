# SPDX-License-Identifier: Apache-2.0
"""strategy='auto': where tables go so that the busiest rank has least to do in a step."""

import dataclasses

from sok_compat.distributed_embeddings.assignment import AUTO, STRATEGIES
from sok_compat.distributed_embeddings.column_slices import even_widths
from sok_compat.distributed_embeddings.plan import ColumnCuts, cut_columns
from sok_compat.distributed_embeddings.workload import Load

_LEAST_GAIN = 0.02  # of the busiest rank's time, for which a table is cut further
_MOST_CUTS = 200


@dataclasses.dataclass(frozen=True)
class ChosenPlan:
    """A plan, and why it is so.

    copied, by_rows, by_columns: tables, in order.
    cuts: the ColumnCuts of those by columns, by their places in that list.
    reasons: of each table, a few words.
    """

    copied: list
    by_rows: list
    by_columns: list
    cuts: ColumnCuts
    reasons: dict


def choose_plan(costs, num_ranks, uncut=(), columns_only=False, rank_bytes=None):
    """The ChosenPlan.

    A table is copied where that costs less than to be asked for; it is cut by rows where it is more
    than half of a rank's memory; all others are put, the most expensive first, on the rank with
    least to do, and cut by columns while that makes the busiest rank's step shorter. Where one of
    the other strategies is expected to be faster for these, its cuts are taken.

    Args:
      costs: TableCosts of each table.
      num_ranks: of all, at least 2.
      uncut: tables that can only be copied.
      columns_only: whether none may be copied or cut by rows.
      rank_bytes: most bytes of a rank; None: no limit.

    Raises:
      ValueError: the tables need more than these bytes.
    """
    reasons, copied, by_rows, by_columns = {}, [], [], []
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


def _kind(cost, num_ranks, is_uncut, columns_only, rank_bytes):
    if columns_only:
        return "columns", ""
    if is_uncut:
        return "copied", "its layer cannot be cut"
    copy, owner = cost.of_copy(), cost.of_owner(cost.columns)
    asked = (owner.seconds + (num_ranks - 1) * cost.of_asker(cost.columns).seconds) / num_ranks
    if copy.seconds < asked:
        return "copied", (
            f"to add its gradient up takes {_time(copy.seconds)} on each rank, to ask for its rows "
            f"{_time(asked)}"
        )
    if rank_bytes is not None and owner.table_bytes > rank_bytes / 2:
        return "rows", f"its {_size(owner.table_bytes)} are more than half of a rank's memory"
    return "columns", ""


class _Packing:
    """Slices of tables, packed onto ranks that have something to do already."""

    def __init__(self, costs, num_ranks, base, rank_bytes):
        self._costs, self._num_ranks = costs, num_ranks
        self._base, self._rank_bytes = base, rank_bytes

    def best(self):
        """(ColumnCuts, the name of their strategy)"""
        shapes = [(cost.rows, cost.columns) for cost in self._costs]
        candidates = [(self._cut_further(), AUTO)]
        for name in STRATEGIES:
            if name != AUTO and shapes:
                candidates.append((cut_columns(shapes, self._num_ranks, name), name))
        cuts, name = min(candidates, key=lambda candidate: self._judged(candidate[0]))
        over = self._bytes_over(cuts)
        if over > 0:
            raise ValueError(
                f"the tables need {_size(over)} more on a rank than the {_size(self._rank_bytes)} "
                "of rank_bytes: give it more ranks, or leave rank_bytes out"
            )
        return cuts, name

    def loads(self, cuts):
        """The Load of each rank."""
        loads = [self._base] * self._num_ranks
        left = [list(widths) for widths in cuts.widths]
        for rank, tables in enumerate(cuts.tables_of_ranks):
            for table in dict.fromkeys(tables):
                width = sum(left[table].pop(0) for _ in range(tables.count(table)))
                owner, asker = self._pair(table, width)
                loads = [
                    load + (owner if other == rank else asker) for other, load in enumerate(loads)
                ]
        return loads

    def _pair(self, table, width):
        return self._costs[table].of_owner(width), self._costs[table].of_asker(width)

    def _bytes_over(self, cuts):
        if self._rank_bytes is None:
            return 0.0
        return max(load.table_bytes for load in self.loads(cuts)) - self._rank_bytes

    def _judged(self, cuts):
        """What is to be least: bytes too many, then the busiest rank's time."""
        seconds = max(load.seconds for load in self.loads(cuts))
        return max(self._bytes_over(cuts), 0.0), seconds

    def _cut_further(self):
        pieces = [1] * len(self._costs)
        best = self._packed(pieces)
        judged = self._judged(best)
        done = set()
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

    def _to_be_cut(self, cuts, pieces, done):
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

    def _packed(self, pieces):
        widths = [even_widths(cost.columns, number) for cost, number in zip(self._costs, pieces)]
        slices = [
            (self._pair(table, width), -table)
            for table, of_table in enumerate(widths)
            for width in of_table
        ]
        slices.sort(key=lambda one: (one[0][0].seconds, one[1]), reverse=True)
        extra = [0.0] * self._num_ranks  # seconds beyond what all have
        sizes = [self._base.table_bytes] * self._num_ranks
        ranks = [[] for _ in range(self._num_ranks)]
        for (owner, asker), minus_table in slices:
            rank = self._rank_for(ranks, extra, sizes, -minus_table, owner.table_bytes)
            ranks[rank].append(-minus_table)
            extra[rank] += owner.seconds - asker.seconds
            sizes[rank] += owner.table_bytes
        return ColumnCuts(widths, [sorted(tables) for tables in ranks])

    def _rank_for(self, ranks, extra, sizes, table, num_bytes):
        """That with least to do, of those without a slice of the table, and with room."""

        def rating(rank):
            limit = self._rank_bytes
            over = 0.0 if limit is None else max(0.0, sizes[rank] + num_bytes - limit)
            return table in ranks[rank], over, extra[rank], sizes[rank], rank

        return min(range(self._num_ranks), key=rating)


def _why(cuts, place, cost, name):
    num_ranks = sum(place in tables for tables in cuts.tables_of_ranks)
    seconds = _time(cost.of_owner(cost.columns).seconds)
    if name != AUTO:
        return f"as '{name}' has it, which no other placement betters; {seconds} a step"
    if num_ranks == 1:
        return f"takes {seconds} a step, where its rank had least to do"
    return f"would take one rank {seconds} a step, more than its share: cut in {num_ranks}"


def _time(seconds):
    return f"{seconds * 1e6:.3g} us"


def _size(num_bytes):
    return f"{num_bytes / 2**20:.4g} MiB"
