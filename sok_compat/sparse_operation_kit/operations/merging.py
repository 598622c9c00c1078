# SPDX-License-Identifier: Apache-2.0
"""`unique` and `unsorted_segment_sum`: TensorFlow's own, with SparseOperationKit's contracts."""

from __future__ import annotations

import tensorflow as tf

KEY_DTYPES = (tf.int32, tf.int64)
SUM_DTYPES = (tf.float16, tf.float32)


def unique(
    x: tf.Tensor, out_idx: tf.DType = tf.int32, name: str | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the distinct elements of a vector. API of SparseOperationKit 1.x.

    Args:
      x: int32 or int64 [n]; n may be 0.
      out_idx: tf.int32 or tf.int64, the dtype of idx.
      name: name of the op.

    Returns:
      (y, idx): y [num_distinct] in the order of first occurrence in x, and idx [n] such that y[idx]
      is x.

    Raises:
      TypeError: x or out_idx has another dtype.
      ValueError: x is statically not a vector.
    """
    x = tf.convert_to_tensor(x)
    _check_dtype("unique", "x", x.dtype, KEY_DTYPES)
    _check_dtype("unique", "out_idx", tf.as_dtype(out_idx), KEY_DTYPES)
    if x.shape.rank not in (None, 1):
        raise ValueError(f"unique takes a vector, got x of shape {x.shape}; reshape it to [-1]")
    return tf.unique(x, out_idx, name)


def unsorted_segment_sum(
    data: tf.Tensor,
    segment_ids: tf.Tensor,
    num_segments: int | tf.Tensor,
    name: str | None = None,
) -> tf.Tensor:
    """Returns the sum of the data of each segment. API of SparseOperationKit 1.x.

    Args:
      data: float16 or float32, [*segment_ids.shape, ...].
      segment_ids: int32 or int64; data with an id outside [0, num_segments) is dropped.
      num_segments: an int, or an int32 or int64 scalar tensor.
      name: name of the op.

    Returns:
      [num_segments, ...], zeros for segments without data; differentiable by data.

    Raises:
      TypeError: data or segment_ids has another dtype.
      ValueError: the static shape of data does not begin with that of segment_ids.
    """
    data, segment_ids = tf.convert_to_tensor(data), tf.convert_to_tensor(segment_ids)
    _check_dtype("unsorted_segment_sum", "data", data.dtype, SUM_DTYPES)
    _check_dtype("unsorted_segment_sum", "segment_ids", segment_ids.dtype, KEY_DTYPES)
    limit = tf.cast(num_segments, segment_ids.dtype)
    # TensorFlow drops negative ids everywhere, but too large ones only on GPUs.
    ids = tf.where(segment_ids < limit, segment_ids, -tf.ones_like(segment_ids))
    return tf.math.unsorted_segment_sum(data, ids, num_segments, name)


def _check_dtype(
    function: str, argument: str, dtype: tf.DType, allowed: tuple[tf.DType, ...]
) -> None:
    if dtype not in allowed:
        names = " or ".join(a.name for a in allowed)
        raise TypeError(f"{function}: {argument} must be {names}, got {dtype.name}; use tf.cast")
