# SPDX-License-Identifier: Apache-2.0
"""Initial rows that the caller of a lookup gives to keys without a row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from sok_compat.lookup.sharded_request import ShardedRequest
from sok_compat.ranks.collectives import begin_collective, gradient_occurrence
from sok_compat.runtime.op_library import ops


@dataclasses.dataclass(frozen=True, eq=False)
class InitialRows:
    """The initial rows of some keys. The owner of a key makes its row from its number.

    numbers: int32 or int64 [number of keys]; equal keys have equal numbers, on all ranks.
    rows_of: from numbers [n] to rows float32 [n, dim], alike on all ranks.
    """

    numbers: tf.Tensor
    rows_of: Callable[[tf.Tensor], tf.Tensor]

    def __call__(self, places: tf.Tensor) -> tf.Tensor:
        """The rows of the keys at these places."""
        return self.rows_of(tf.gather(self.numbers, places))

    def at(self, places: tf.Tensor) -> InitialRows:
        """The InitialRows of the keys at these places."""
        return InitialRows(tf.gather(self.numbers, places), self.rows_of)


def first_occurrences(num_keys: tf.Tensor, inverse: tf.Tensor) -> tf.Tensor:
    """Returns the place of the first occurrence of each distinct key, int32 [num_keys]; `inverse`
    is the index of each occurrence's key."""
    return tf.math.unsorted_segment_min(tf.range(tf.size(inverse)), inverse, num_keys)


def received_at_owner(
    initial_rows: InitialRows | None, table_name: str, requested: ShardedRequest, place: int
) -> InitialRows | None:
    """Returns the InitialRows of the keys that this rank received for the lookup at `place` of the
    group; None without any on all ranks."""
    if initial_rows is None:
        return None
    replies, counts = requested.replies[place], requested.reply_counts[place]
    num_replies = tf.reduce_sum(counts[: tf.size(counts) // 2])  # then those that are sums
    sent = initial_rows.at(first_occurrences(num_replies, replies))
    collective = begin_collective(f"{table_name} (initial rows)")
    (received,) = ops.sok_exchange_values(
        values=[sent.numbers[:, tf.newaxis]],
        requested_counts=[requested.requested_counts[place]],
        reply_counts=[counts],
        collective=collective,
        occurrence=gradient_occurrence(collective),
    )
    num_keys = tf.size(requested.requested_keys[place])
    of_keys = first_occurrences(num_keys, requested.requested_places[place])
    return InitialRows(tf.gather(received[:, 0], of_keys), initial_rows.rows_of)
