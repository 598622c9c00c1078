# SPDX-License-Identifier: Apache-2.0
"""The history of a table's keys: how often they came, and when last."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.tables.variable_mixin import VariableMixin


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
        """Returns the smallest filter of this false positive probability for `most_keys` keys.

        Args:
          most_keys: an int >= 1.
          false_positive_probability: in (0, 1).
          counter_bytes: 1, 2, 4 or 8.
        """
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


def evict_keys(
    table_handle: tf.Tensor,
    step: int | tf.Tensor,
    steps_to_live: int | None,
    l2_threshold: float | None,
) -> tf.Tensor:
    """As HasHistory.evict, of a table of which only the handle is known."""
    return ops.sok_evict_keys(
        table_handle,
        tf.cast(step, tf.int64),
        steps_to_live=steps_to_live or 0,
        l2_threshold=l2_threshold or 0.0,
    )


class HasHistory(VariableMixin):
    """Base class of tables: the history of the keys of this rank.

    history: a KeyHistory; None: no history is kept, and these methods raise.
    """

    history: KeyHistory | None = None

    @property
    def counts_keys(self) -> bool:
        """Whether gradients of lookups count their keys."""
        return self.history is not None and self.history.counts_keys

    def key_history(self, keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns (counts, steps) of keys, int64 [n] each: how often a key came in training steps,
        and the global step of the last one; 0 and -1 for unknown keys. With max_keys, counts are 0,
        and a step is when a lookup that inserts last used the key, in nanoseconds since 1970.

        Raises:
          ValueError: no history is kept.
        """
        self._check_has_history("key_history")
        with tf.device(self.device):
            return tuple(ops.sok_key_history(self.table_handle, keys))

    def waiting_keys(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns (keys, counts, steps) of keys that have come but have no row yet, int64 [n] each.

        Keys in a Bloom filter are missing.

        Raises:
          ValueError: no history is kept.
        """
        self._check_has_history("waiting_keys")
        with tf.device(self.device):
            return tuple(ops.sok_export_waiting_keys(self.table_handle))

    def import_history(self, keys: tf.Tensor, counts: tf.Tensor, steps: tf.Tensor) -> tf.Operation:
        """Returns an op that sets the history of distinct keys, with or without rows.

        Raises:
          ValueError: no history is kept.
        """
        self._check_has_history("import_history")
        with tf.device(self.device):
            return ops.sok_import_history(self.table_handle, keys, counts, steps)

    def evict(
        self,
        step: int | tf.Tensor,
        steps_to_live: int | None = None,
        l2_threshold: float | None = None,
    ) -> tf.Tensor:
        """Evicts keys. Running steps keep the rows that they have found; no other key gets these
        rows before the steps have ended.

        Args:
          step: the global step, an integer tensor; -1: the one after the last counted step.
          steps_to_live: evicts keys that came last before step - steps_to_live; None: no keys.
          l2_threshold: evicts keys whose row has half a squared norm below it; None: no keys.

        Returns:
          The number of evicted keys, a scalar int64 tensor.

        Raises:
          ValueError: the table's history does not evict.
        """
        if self.history is None or not self.history.evicts:
            raise ValueError(
                f"the table {self.table_name} was not made to evict keys: its history is "
                f"{self.history}"
            )
        with tf.device(self.device):
            return evict_keys(self.table_handle, step, steps_to_live, l2_threshold)

    def make_room(self, keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Evicts the keys that a lookup of `keys` which inserts would evict.

        Returns:
          (evicted keys int64 [n], their rows float32 [n, dim]), the least recently used first.

        Raises:
          ValueError: the table has no max_keys.
        """
        if self.history is None or not self.history.max_keys:
            raise ValueError(
                f"the table {self.table_name} evicts no keys when it is full: its history is "
                f"{self.history}"
            )
        with tf.device(self.device):
            evicted, rows = ops.sok_make_room(self.table_handle, keys)
            rows.set_shape([None, self.dim])
            return evicted, rows

    def before_save(self) -> tf.Operation | None:
        """Returns the op to run before a checkpoint of the table is written, or None."""
        return None

    def _check_has_history(self, method: str) -> None:
        if self.history is None:
            raise ValueError(
                f"{method}: the table {self.table_name} keeps no history of its keys, neither for "
                "a filter nor for eviction"
            )
