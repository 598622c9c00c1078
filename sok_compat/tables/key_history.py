# SPDX-License-Identifier: Apache-2.0
"""What a table knows of its keys besides their rows: how often they came, and when last."""

import dataclasses
import math
from typing import Optional

import tensorflow as tf

from sok_compat.runtime.op_library import ops


@dataclasses.dataclass(frozen=True)
class BloomCounts:
    """The sizes of a counting Bloom filter on one rank."""

    num_counters: int
    num_hashes: int
    counter_bytes: int

    @classmethod
    def of(cls, most_keys, false_positive_probability, counter_bytes):
        """The smallest one in which `most_keys` keys are taken for others with that probability.

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
    """That a table keeps counts and steps, 16 bytes a row, and what it does by them.

    filter_freq: a key gets its row when it has come so often in steps that trained; until then a
      lookup reads `value_without_row` in all columns, and its gradient is left out. Up to 1: a key
      gets its row when it comes.
    bloom: what counts keys without a row; None: exact counts.
    evicts: whether `evict` may be called.
    """

    filter_freq: int = 0
    bloom: Optional[BloomCounts] = None
    value_without_row: float = 0.0
    evicts: bool = False

    def op_attributes(self):
        """Of the op that makes the table."""
        bloom = self.bloom or BloomCounts(0, 1, 8)
        return {
            "keeps_history": True,
            "filter_freq": self.filter_freq,
            "value_without_row": float(self.value_without_row),
            "evicts": self.evicts,
            **{f"bloom_{name}": number for name, number in _without_num(bloom)},
        }


def _without_num(bloom):
    for name, number in dataclasses.asdict(bloom).items():
        yield name.removeprefix("num_"), number


def checked_history(history, use_hash_index, first_value_kind):
    """The KeyHistory, or None.

    Raises:
      ValueError: there is one, but no hash index; it evicts, but rows were made all at once, so
        that those of evicted keys could not start again.
    """
    if history is not None and history.evicts and first_value_kind == "preset":
        raise ValueError("a table whose initializer makes all rows at once evicts no keys")
    if history is not None and not use_hash_index:
        raise ValueError(
            f"a table without a hash index keeps no history of its keys, got {history}"
        )
    return history


class HasHistory:
    """The part of a Table that asks for the history of keys, of this rank.

    history: a KeyHistory; None: none is kept, and these methods raise.
    """

    history = None

    def key_history(self, keys):
        """(counts, steps) of keys, int64 [n] each: how often a key came in steps that trained, and
        the global step of the last one. 0 and -1 for keys that this rank knows nothing of.

        Raises:
          ValueError: no history is kept.
        """
        self._check_has_history("key_history")
        with tf.device(self.device):
            return tuple(ops.sok_key_history(self.table_handle, keys))

    def waiting_keys(self):
        """(keys, counts, steps) of keys that have come, but have no row yet, int64 [n] each; those
        in a Bloom filter are not known.

        Raises:
          ValueError: no history is kept.
        """
        self._check_has_history("waiting_keys")
        with tf.device(self.device):
            return tuple(ops.sok_export_waiting_keys(self.table_handle))

    def import_history(self, keys, counts, steps):
        """An op that makes this what is known of distinct keys, of which some may have no row.

        Raises:
          ValueError: no history is kept.
        """
        self._check_has_history("import_history")
        with tf.device(self.device):
            return ops.sok_import_history(self.table_handle, keys, counts, steps)

    def evict(self, step, steps_to_live=None, l2_threshold=None):
        """Takes their rows from keys. Steps that run keep reading the rows that they have found;
        nobody else gets these before they have ended.

        Args:
          step: the global step, an integer tensor; -1: the one after the last that counted.
          steps_to_live: keys go that came last before step - steps_to_live; None: none do.
          l2_threshold: keys go of whose row half the squared norm is below it; None: none do.

        Returns:
          How many keys went, a scalar int64 tensor.

        Raises:
          ValueError: the table was not made with a history that evicts.
        """
        if self.history is None or not self.history.evicts:
            raise ValueError(
                f"the table {self.table_name} was not made to evict keys: its history is "
                f"{self.history}"
            )
        with tf.device(self.device):
            return ops.sok_evict_keys(
                self.table_handle,
                tf.cast(step, tf.int64),
                steps_to_live=steps_to_live or 0,
                l2_threshold=l2_threshold or 0.0,
            )

    def before_save(self):
        """What is to run before a checkpoint of the table is written: an operation, or None."""
        return None

    def _check_has_history(self, method):
        if self.history is None:
            raise ValueError(
                f"{method} of {self.table_name}: no history of its keys is kept, neither for a "
                "filter nor for eviction"
            )
