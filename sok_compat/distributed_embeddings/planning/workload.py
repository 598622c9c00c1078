# SPDX-License-Identifier: Apache-2.0
"""The requests of a step to tables, and their costs on a rank. Numbers only."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

_FLOAT_BYTES = 4
_KEY_BYTES = 8
_INDEX_BYTES = 64  # a cache line of the key index, for each distinct id


@dataclasses.dataclass(frozen=True)
class Workload:
    """The assumptions of strategy='auto' and `explain` about batches and machines.

    Added by sok_compat.

    batch_size: samples of all ranks together in a step.
    hotness: ids of a sample, for each input; or one number for all inputs.
    link_bytes_per_second: bytes that a rank can send and receive, both together.
    memory_bytes_per_second: bytes that a rank can read and write in its memory, at random places.
    rank_bytes: most bytes of tables and their slots on a rank, or None if there is no limit.
    num_slots: floats of optimizer state for each float of a table: 1 for Adagrad, 2 for Adam.

    Raises:
      ValueError: a size or rate that is not above 0, or a hotness or num_slots below 0.
    """

    batch_size: int = 65536
    hotness: float | Sequence[float] = 1
    link_bytes_per_second: float = 10e9
    memory_bytes_per_second: float = 20e9
    rank_bytes: float | None = None
    num_slots: int = 1

    def __post_init__(self) -> None:
        for name in ("batch_size", "link_bytes_per_second", "memory_bytes_per_second"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)!r}")
        hotness = self.hotness if isinstance(self.hotness, Sequence) else [self.hotness]
        if any(each < 0 for each in hotness) or self.num_slots < 0:
            raise ValueError(
                f"hotness and num_slots must be at least 0, got {self.hotness!r} and "
                f"{self.num_slots!r}"
            )

    def hotness_of_inputs(self, num_inputs: int) -> list[float]:
        """Returns the ids of a sample, for each input.

        Raises:
          ValueError: the length of `hotness` is not num_inputs.
        """
        if not isinstance(self.hotness, Sequence):
            return [self.hotness] * num_inputs
        if len(self.hotness) != num_inputs:
            raise ValueError(
                f"hotness needs a number for each of the {num_inputs} inputs, got "
                f"{len(self.hotness)}"
            )
        return list(self.hotness)


@dataclasses.dataclass(frozen=True)
class Load:
    """The load of a step on one rank. Loads add up.

    table_bytes: bytes of rows and slots on the rank.
    lookups: ids looked up in its rows.
    exchange_bytes: bytes that it sends and receives.
    seconds: time for memory and link, one after the other.
    """

    table_bytes: float = 0.0
    lookups: float = 0.0
    exchange_bytes: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Load) -> Load:
        return Load(*(a + b for a, b in zip(_numbers(self), _numbers(other))))


def _numbers(load: Load) -> tuple[float, float, float, float]:
    return load.table_bytes, load.lookups, load.exchange_bytes, load.seconds


class TableCosts:
    """The costs of a table in each of its possible places, by a Workload.

    The pooling of rows on the requesting rank costs the same in all places, and is left out.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        hotness: Sequence[float],
        is_pooled: bool,
        num_ranks: int,
        workload: Workload,
    ) -> None:
        """Counts the requests of a step; `hotness` are the ids of a sample, for each input of the
        table."""
        self.rows, self.columns = shape
        self._workload, self._num_ranks = workload, num_ranks
        samples = workload.batch_size / num_ranks
        self._ids = samples * sum(hotness)  # of a rank
        self._requested = _distinct(self._ids, self.rows)
        self._found = _distinct(self._ids * num_ranks, self.rows)
        self._replies = self._requested
        if is_pooled:
            self._replies = min(self._requested, samples * sum(1 for each in hotness if each))
        self._bags = samples * sum(1 for each in hotness if each) if is_pooled else math.inf

    def of_owner(self, width: float) -> Load:
        """Returns the Load of the rank that holds a slice of `width` columns."""
        others = self._num_ranks - 1
        return self._load(
            self.rows * width,
            self._ids * self._num_ranks,
            self._touched_bytes(self._found, width),
            others * self._exchanged_bytes(self._requested, self._replies, width),
        )

    def of_requester(self, width: float) -> Load:
        """Returns the Load of each other rank, for its requests of that slice."""
        return self._load(0, 0, 0, self._exchanged_bytes(self._requested, self._replies, width))

    def of_rows(self) -> Load:
        """Returns the Load of each rank if the table is cut by rows over all ranks."""
        part = 1 / self._num_ranks
        others = self._num_ranks - 1
        requested = self._requested * part
        exchanged = self._exchanged_bytes(requested, min(requested, self._bags), self.columns)
        return self._load(
            self.rows * self.columns * part,
            self._ids,
            self._touched_bytes(self._found * part, self.columns),
            2 * others * exchanged,
        )

    def of_copy(self) -> Load:
        """Returns the Load of each rank if each holds the whole table.

        The dense gradient is then summed over all ranks and applied.
        """
        size = self.rows * self.columns
        others = self._num_ranks - 1
        dense_passes = 4 + 2 * self._workload.num_slots
        return self._load(
            size,
            self._ids,
            dense_passes * size * _FLOAT_BYTES,
            4 * others / self._num_ranks * size * _FLOAT_BYTES,
        )

    def _touched_bytes(self, distinct: float, width: float) -> float:
        """Rows are read in the forward pass, then updated together with their slots."""
        updates = 3 + 2 * self._workload.num_slots
        return distinct * (_INDEX_BYTES + updates * width * _FLOAT_BYTES)

    def _exchanged_bytes(self, requested: float, replies: float, width: float) -> float:
        """Requested keys one way, replies of rows the other way, and gradients."""
        return requested * _KEY_BYTES + 2 * replies * width * _FLOAT_BYTES

    def _load(
        self, size: float, lookups: float, touched_bytes: float, exchange_bytes: float
    ) -> Load:
        seconds = (
            touched_bytes / self._workload.memory_bytes_per_second
            + exchange_bytes / self._workload.link_bytes_per_second
        )
        table_bytes = size * _FLOAT_BYTES * (1 + self._workload.num_slots)
        return Load(table_bytes, lookups, exchange_bytes, seconds)


def _distinct(num_ids: float, num_rows: int) -> float:
    """The expected number of distinct ids if all ids are equally likely."""
    return -num_rows * math.expm1(-num_ids / num_rows)
