# SPDX-License-Identifier: Apache-2.0
"""Initial rows that the caller of a lookup gives to keys without a row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from sok_compat.ranks.collectives import begin_collective, gradient_occurrence
from sok_compat.runtime.op_library import ops


@dataclasses.dataclass(frozen=True, eq=False)
class InitialRows:
    """The initial rows of some keys. The owner of a key makes its row from its number.

    numbers: integers [number of keys], below 2^31; equal keys have equal numbers, on all ranks.
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
    """Returns the place of the first occurrence of each distinct key, int32 [num_keys].

    Args:
      num_keys: number of distinct keys.
      inverse: int32 [number of occurrences]: the index of each one's key.
    """
    return tf.math.unsorted_segment_min(tf.range(tf.size(inverse)), inverse, num_keys)


def sent_to_owners(
    initial_rows: InitialRows, requested_counts: tf.Tensor, reply_counts: tf.Tensor, name: str
) -> InitialRows:
    """Returns the InitialRows of the keys that this rank received, from those that it sent.

    Args:
      initial_rows: of the keys that this rank sent.
      requested_counts, reply_counts: outputs of SokExchangeKeys.
      name: of the collective, the same on all ranks.
    """
    collective = begin_collective(name)
    numbers = tf.cast(initial_rows.numbers, tf.int32)
    (received,) = ops.sok_exchange_gradients(
        gradients=[tf.bitcast(numbers, tf.float32)[:, tf.newaxis]],  # it copies bytes
        requested_counts=[requested_counts],
        reply_counts=[reply_counts],
        collective=collective,
        occurrence=gradient_occurrence(collective),
    )
    return InitialRows(tf.bitcast(received[:, 0], tf.int32), initial_rows.rows_of)
