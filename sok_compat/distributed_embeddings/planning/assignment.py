# SPDX-License-Identifier: Apache-2.0
"""Assigns slices of tables to ranks, by strategy. Numbers only."""

from __future__ import annotations

from collections.abc import Sequence

AUTO = "auto"  # also makes its own slices: see chosen_plan.py
STRATEGIES = ("basic", "memory_balanced", "memory_optimized", AUTO)


def checked_strategy(strategy: str) -> str:
    """Returns `strategy`.

    Raises:
      ValueError: it is not one of STRATEGIES.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"Unsupported shard strategy {strategy}: it must be one of {STRATEGIES}")
    return strategy


def assign_slices(
    slices: Sequence[tuple[int, int]], num_ranks: int, strategy: str
) -> list[list[int]]:
    """Returns the tables of each rank's slices, one item for each slice, in the rank's order.

    Args:
      slices: [(number of floats, table)], table by table.
      strategy: one of STRATEGIES except AUTO.
    """
    if strategy == "basic":
        return [[table for _, table in slices[rank::num_ranks]] for rank in range(num_ranks)]
    by_size = sorted(slices, reverse=True)
    if strategy == "memory_balanced":
        return _there_and_back([table for _, table in by_size], num_ranks)
    return _least_first(by_size, num_ranks)


def _there_and_back(tables: list[int], num_ranks: int) -> list[list[int]]:
    """Assigns the largest to rank 0, the next to rank 1, ...; then back from the last rank, etc."""
    return [
        tables[rank :: 2 * num_ranks] + tables[2 * num_ranks - 1 - rank :: 2 * num_ranks]
        for rank in range(num_ranks)
    ]


def _least_first(slices: Sequence[tuple[int, int]], num_ranks: int) -> list[list[int]]:
    """Assigns each to the rank with the least so far; in the result, rank 0 has the least."""
    ranks: list[tuple[int, list[int]]] = [(0, []) for _ in range(num_ranks)]
    for size, table in slices:
        least = ranks.index(min(ranks))
        total, tables = ranks[least]
        ranks[least] = total + size, [*tables, table]
    return [tables for _, tables in sorted(ranks)]
