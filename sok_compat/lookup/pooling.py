# SPDX-License-Identifier: Apache-2.0
"""Pools bags by TensorFlow's own ops."""

from __future__ import annotations

import tensorflow as tf


def pool_rows(
    rows: tf.Tensor, row_splits: tf.Tensor, combiner: str, weights: tf.Tensor | None = None
) -> tf.Tensor:
    """Pools rows [n, dim] by TensorFlow's own ops, which also give weights gradients.

    Args:
      row_splits: int64 [num_bags + 1], ascending from 0 to n.
      combiner: 'sum' or 'mean' (over the sum of weights).
      weights: [n], factors of the rows; None: 1.

    Returns:
      [num_bags, dim]; zeros for empty bags.
    """
    num_bags = tf.size(row_splits) - 1
    bag_of_row = tf.ragged.row_splits_to_segment_ids(row_splits)
    weights = tf.ones(tf.shape(rows)[:1], rows.dtype) if weights is None else weights
    total = tf.math.unsorted_segment_sum(rows * weights[:, tf.newaxis], bag_of_row, num_bags)
    if combiner == "sum":
        return total
    weight = tf.math.unsorted_segment_sum(weights, bag_of_row, num_bags)
    return tf.math.divide_no_nan(total, weight[:, tf.newaxis])
