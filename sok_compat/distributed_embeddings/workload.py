# SPDX-License-Identifier: Apache-2.0
"""What a step asks of tables, and what that costs on a rank. Numbers alone."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Optional, Union

_FLOAT_BYTES = 4
_KEY_BYTES = 8
_INDEX_BYTES = 64  # a cache line of the key index, for each distinct id


@dataclasses.dataclass(frozen=True)
class Workload:
    """What strategy='auto' plans for, and `explain` counts with.

    batch_size: samples of all ranks together, in a step.
    hotness: ids of a sample, of each input; a number: of all inputs.
    link_bytes_per_second: what a rank can send and receive, both together.
    memory_bytes_per_second: what a rank can read and write in its memory, at random places.
    rank_bytes: most bytes of tables with their slots on a rank; None: no limit.
    num_slots: floats of state that the optimizer keeps for each float: 1 for Adagrad, 2 for Adam.
    """

    batch_size: int = 65536
    hotness: Union[float, Sequence[float]] = 1
    link_bytes_per_second: float = 10e9
    memory_bytes_per_second: float = 20e9
    rank_bytes: Optional[float] = None
    num_slots: int = 1

    def __post_init__(self):
        for name in ("batch_size", "link_bytes_per_second", "memory_bytes_per_second"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)!r}")
        hotness = self.hotness if isinstance(self.hotness, Sequence) else [self.hotness]
        if any(each < 0 for each in hotness) or self.num_slots < 0:
            raise ValueError(
                f"hotness and num_slots must be at least 0, got {self.hotness!r} and "
                f"{self.num_slots!r}"
            )

    def hotness_of_inputs(self, num_inputs):
        """[ids of a sample] of each input.

        Raises:
          ValueError: they are those of another number of inputs.
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
    """Of a step on one rank. Loads add up.

    table_bytes: of rows and slots that the rank keeps.
    lookups: ids that are looked up in its rows.
    exchange_bytes: that it sends and receives.
    seconds: for memory and link, one after the other.
    """

    table_bytes: float = 0.0
    lookups: float = 0.0
    exchange_bytes: float = 0.0
    seconds: float = 0.0

    def __add__(self, other):
        return Load(*(a + b for a, b in zip(_numbers(self), _numbers(other))))


def _numbers(load):
    return load.table_bytes, load.lookups, load.exchange_bytes, load.seconds


class TableCosts:
    """What a table costs in each of the places that it can be in, by a Workload. What all of them
    have alike, the pooling of rows on the rank that asks, is left out."""

    def __init__(self, shape, hotness, is_pooled, num_ranks, workload):
        """Counts what a step asks.

        Args:
          shape: (rows, columns).
          hotness: of each input of the table.
          is_pooled: whether it has a combiner.
          num_ranks: of all.
          workload: the Workload.
        """
        self.rows, self.columns = shape
        self._workload, self._num_ranks = workload, num_ranks
        samples = workload.batch_size / num_ranks
        self._ids = samples * sum(hotness)  # of a rank
        self._asked = _distinct(self._ids, self.rows)
        self._found = _distinct(self._ids * num_ranks, self.rows)
        self._answers = self._asked
        if is_pooled:
            self._answers = min(self._asked, samples * sum(1 for each in hotness if each))
        self._bags = samples * sum(1 for each in hotness if each) if is_pooled else math.inf

    def of_owner(self, width):
        """The Load of the rank that has a slice of columns."""
        others = self._num_ranks - 1
        return self._load(
            self.rows * width,
            self._ids * self._num_ranks,
            self._touched_bytes(self._found, width),
            others * self._answered_bytes(self._asked, self._answers, width),
        )

    def of_asker(self, width):
        """The Load of each other rank, for that slice."""
        return self._load(0, 0, 0, self._answered_bytes(self._asked, self._answers, width))

    def of_rows(self):
        """The Load of each rank, where the table is cut by rows over all."""
        part = 1 / self._num_ranks
        others = self._num_ranks - 1
        answered = self._answered_bytes(
            self._asked * part, min(self._asked * part, self._bags), self.columns
        )
        return self._load(
            self.rows * self.columns * part,
            self._ids,
            self._touched_bytes(self._found * part, self.columns),
            2 * others * answered,
        )

    def of_copy(self):
        """The Load of each rank, where each has the whole table: its gradient is added up over all
        ranks, and applied, as a whole."""
        size = self.rows * self.columns
        others = self._num_ranks - 1
        dense_passes = 4 + 2 * self._workload.num_slots
        return self._load(
            size,
            self._ids,
            dense_passes * size * _FLOAT_BYTES,
            4 * others / self._num_ranks * size * _FLOAT_BYTES,
        )

    def _touched_bytes(self, distinct, width):
        """Read forward; backward each row is read and written, with its slots."""
        updates = 3 + 2 * self._workload.num_slots
        return distinct * (_INDEX_BYTES + updates * width * _FLOAT_BYTES)

    def _answered_bytes(self, asked, answers, width):
        """Keys one way, rows back, and gradients."""
        return asked * _KEY_BYTES + 2 * answers * width * _FLOAT_BYTES

    def _load(self, size, lookups, touched_bytes, exchange_bytes):
        seconds = (
            touched_bytes / self._workload.memory_bytes_per_second
            + exchange_bytes / self._workload.link_bytes_per_second
        )
        table_bytes = size * _FLOAT_BYTES * (1 + self._workload.num_slots)
        return Load(table_bytes, lookups, exchange_bytes, seconds)


def _distinct(num_ids, num_rows):
    """How many of these ids are expected to differ, where all are as likely."""
    return -num_rows * math.expm1(-num_ids / num_rows)
