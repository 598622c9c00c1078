# SPDX-License-Identifier: Apache-2.0
"""`unique` and `unsorted_segment_sum`: TensorFlow's own, with SparseOperationKit's contracts."""

import tensorflow as tf

KEY_DTYPES = (tf.int32, tf.int64)
SUM_DTYPES = (tf.float16, tf.float32)


def unique(x, out_idx=tf.int32, name=None):
    """The distinct elements of a vector. API of SparseOperationKit 1.x.

    Args:
      x: int32 or int64 [n]; n may be 0.
      out_idx: tf.int32 or tf.int64, the dtype of idx.
      name: of the op.

    Returns:
      (y, idx): y [num_distinct] in the order in which its elements first come in x; idx [n], so
      that y[idx] is x.

    Raises:
      TypeError: x or out_idx has another dtype.
      ValueError: x is known not to be a vector.
    """
    x = tf.convert_to_tensor(x)
    _check_dtype("unique", "x", x.dtype, KEY_DTYPES)
    _check_dtype("unique", "out_idx", tf.as_dtype(out_idx), KEY_DTYPES)
    if x.shape.rank not in (None, 1):
        raise ValueError(f"unique takes a vector, got x of shape {x.shape}; reshape it to [-1]")
    return tf.unique(x, out_idx, name)


def unsorted_segment_sum(data, segment_ids, num_segments, name=None):
    """The sum of the data of each segment. API of SparseOperationKit 1.x.

    Args:
      data: float16 or float32, [*segment_ids.shape, ...].
      segment_ids: int32 or int64; data whose id is not in [0, num_segments) is dropped.
      num_segments: a number or scalar tensor, int32 or int64.
      name: of the op.

    Returns:
      [num_segments, ...], zeros for a segment without data; differentiable by data.

    Raises:
      TypeError: another dtype.
      ValueError: the shape of data is known not to begin with that of segment_ids.
    """
    data, segment_ids = tf.convert_to_tensor(data), tf.convert_to_tensor(segment_ids)
    _check_dtype("unsorted_segment_sum", "data", data.dtype, SUM_DTYPES)
    _check_dtype("unsorted_segment_sum", "segment_ids", segment_ids.dtype, KEY_DTYPES)
    limit = tf.cast(num_segments, segment_ids.dtype)
    # TensorFlow drops negative ids everywhere, but too large ones only on GPUs.
    ids = tf.where(segment_ids < limit, segment_ids, -tf.ones_like(segment_ids))
    return tf.math.unsorted_segment_sum(data, ids, num_segments, name)


def _check_dtype(function, argument, dtype, allowed):
    if dtype not in allowed:
        names = " or ".join(a.name for a in allowed)
        raise TypeError(f"{function}: {argument} must be {names}, got {dtype.name}; use tf.cast")
