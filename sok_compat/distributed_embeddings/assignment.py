# SPDX-License-Identifier: Apache-2.0
"""Which rank gets which slices of tables, by strategy. Numbers alone."""

AUTO = "auto"  # makes its own slices, too: see chosen_plan.py
STRATEGIES = ("basic", "memory_balanced", "memory_optimized", AUTO)


def checked_strategy(strategy):
    """`strategy`, if it is one.

    Raises:
      ValueError: it is none.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"Unsupported shard strategy {strategy}: it must be one of {STRATEGIES}")
    return strategy


def assign_slices(slices, num_ranks, strategy):
    """The tables that each rank gets slices of, one item for each slice, in the rank's order.

    Args:
      slices: [(number of floats, table)] table by table.
      num_ranks: of all.
      strategy: of STRATEGIES, not AUTO.
    """
    if strategy == "basic":
        return [[table for _, table in slices[rank::num_ranks]] for rank in range(num_ranks)]
    by_size = sorted(slices, reverse=True)
    if strategy == "memory_balanced":
        return _there_and_back([table for _, table in by_size], num_ranks)
    return _least_first(by_size, num_ranks)


def _there_and_back(tables, num_ranks):
    """The largest to rank 0, the next to rank 1, ...; then back from the last rank, and again."""
    return [
        tables[rank :: 2 * num_ranks] + tables[2 * num_ranks - 1 - rank :: 2 * num_ranks]
        for rank in range(num_ranks)
    ]


def _least_first(slices, num_ranks):
    """Each to the rank that has least; at the end rank 0 has least of all."""
    ranks = [(0, []) for _ in range(num_ranks)]
    for size, table in slices:
        least = ranks.index(min(ranks))
        total, tables = ranks[least]
        ranks[least] = total + size, [*tables, table]
    return [tables for _, tables in sorted(ranks)]
