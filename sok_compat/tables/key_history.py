# SPDX-License-Identifier: Apache-2.0
"""The history of a table's keys: how often they came, and when last."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any


@dataclasses.dataclass(frozen=True)
class BloomCounts:
    """The sizes of a counting Bloom filter on one rank."""

    num_counters: int
    num_hashes: int
    counter_bytes: int

    @classmethod
    def of(
        cls, most_keys: int, false_positive_probability: float, counter_bytes: int
    ) -> BloomCounts:
        """Returns the smallest filter of this false positive probability, in (0, 1), for
        `most_keys` keys, with counters of 1, 2, 4 or 8 bytes."""
        bits = -math.log(false_positive_probability) / math.log(2)
        num_counters = math.ceil(most_keys * bits / math.log(2))
        return cls(max(1, num_counters), min(64, max(1, math.ceil(bits))), counter_bytes)


@dataclasses.dataclass(frozen=True)
class KeyHistory:
    """How a table uses counts and steps of its keys, which take 16 bytes a row.

    filter_freq: a key gets its row after this many occurrences in training steps, the last of
      which trains it. Lookups read `value_without_row` in all columns until that step has ended.
      0 or 1: a key gets its row at once.
    bloom: the filter that counts keys without a row, once exact counts would take more memory;
      None: exact counts.
    evicts: whether `evict` may be called.
    max_keys: most keys with rows, in a table without a capacity; 0: no limit. Lookups that insert
      record when a key was used last, and evict the least recently used keys beyond it, but none
      that their step uses. Steps are then nanoseconds since 1970.
    """

    filter_freq: int = 0
    bloom: BloomCounts | None = None
    value_without_row: float = 0.0
    evicts: bool = False
    max_keys: int = 0

    @property
    def counts_keys(self) -> bool:
        """Whether gradients count keys, rather than lookups."""
        return not self.max_keys

    def op_attributes(self) -> dict[str, Any]:
        """Attributes of the op that makes the table."""
        bloom = self.bloom or BloomCounts(0, 1, 8)
        return {
            "keeps_history": True,
            "filter_freq": self.filter_freq,
            "value_without_row": float(self.value_without_row),
            "evicts": self.evicts,
            "max_keys": self.max_keys,
            **{f"bloom_{name}": number for name, number in _without_num(bloom)},
        }


def _without_num(bloom: BloomCounts) -> Iterator[tuple[str, int]]:
    for name, number in dataclasses.asdict(bloom).items():
        yield name.removeprefix("num_"), number


def check_history(
    history: KeyHistory | None, use_hash_index: bool, first_value_kind: str, capacity: int | None
) -> None:
    """Checks that a table can have this history.

    Raises:
      ValueError: a history without a hash index; one that evicts keys of a 'preset' table, whose
        rows could not start again; max_keys with a capacity, a filter or other eviction.
    """
    if history is not None and history.evicts and first_value_kind == "preset":
        raise ValueError("a table whose initializer makes all rows at once cannot evict keys")
    if history is not None and history.max_keys:
        if history.max_keys < 0 or history.evicts or history.filter_freq:
            raise ValueError(
                f"max_keys must be positive, without a filter and evicts=True, got {history}"
            )
        if capacity is not None:
            raise ValueError(
                f"a table with max_keys={history.max_keys} must have capacity=None, got "
                f"{capacity}: rows of evicted keys need memory until running steps end"
            )
    if history is not None and not use_hash_index:
        raise ValueError(
            f"a table without a hash index cannot keep a history of its keys, got {history}"
        )
