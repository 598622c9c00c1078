# SPDX-License-Identifier: Apache-2.0
"""`nn.embedding_lookup_sparse_multi_dim`: bags of bags, with a combiner for each dimension.

After tensorflow/python/ops/embedding_ops.py of DeepRec.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from sok_compat.deeprec.lookups.stock_lookups import embedding_lookup

_COMBINERS = ("mean", "sqrtn", "sum", "max", "min", "tile")


def embedding_lookup_sparse_multi_dim(
    params: Any,
    sp_ids: tf.SparseTensor,
    sp_weights: tf.SparseTensor | None,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiners: Sequence[str] | str | None = None,
    max_norm: float | None = None,
    weight_axis: int | None = -1,
) -> tf.Tensor:
    """Rows of ids, combined dimension by dimension, from the last one on. API of DeepRec.

    Args:
      params, partition_strategy, max_norm: as of tf.nn.embedding_lookup.
      sp_ids: integers [batch, ...], a dimension for each combiner besides the batch.
      sp_weights: floats at the places of the ids; rows are multiplied by them. None: all are 1.
      name: name of the ops.
      combiners: for each dimension 'mean', 'sqrtn', 'sum', 'max', 'min', or 'tile', which puts rows
        side by side, zeros where there is none; None: 'mean'.
      weight_axis: the dimension whose 'mean' or 'sqrtn' divides by weights; others do by counts.

    Returns:
      [batch without empty samples at its end, dim]; zeros for other empty samples, where DeepRec
      may give NaN. With 'tile', dim is multiplied by the size of the dimension.

    Raises:
      TypeError: ids or weights are no SparseTensor.
      ValueError: an unknown combiner, or another number of them.
    """
    combiners = ["mean"] if combiners is None else combiners
    combiners = [combiners] if isinstance(combiners, str) else list(combiners)
    _check(sp_ids, sp_weights, combiners)
    rank = len(combiners) + 1
    weight_axis = (-1 if weight_axis is None else weight_axis) % rank
    with tf.name_scope(name or "embedding_lookup_sparse"):
        distinct, places = tf.unique(sp_ids.values)
        rows = embedding_lookup(params, distinct, partition_strategy, max_norm=max_norm)
        rows = tf.gather(rows, places)
        weights = tf.ones([tf.shape(places)[0], 1], rows.dtype)
        if sp_weights is not None:
            weights = tf.cast(sp_weights.values, rows.dtype)[:, tf.newaxis]
            rows *= weights
        indices = sp_ids.indices
        for axis in range(rank - 1, 0, -1):
            divisors = weights if sp_weights is not None and axis == weight_axis else None
            segments, offsets, indices = _segments(indices, sp_ids.dense_shape, axis)
            size = sp_ids.dense_shape[axis]
            rows = _combined(combiners[axis - 1], rows, segments, offsets, divisors, size)
            weights = tf.math.segment_mean(weights, segments)
        num_samples = tf.reduce_max(tf.concat([[-1], indices[:, 0]], 0)) + 1
        shape = tf.stack([num_samples, tf.shape(rows, tf.int64)[1]])
        output = tf.scatter_nd(indices, rows, shape)
        output.set_shape([None, rows.shape[1]])
        return output


def _check(ids, weights, combiners):
    if not isinstance(ids, tf.SparseTensor):
        raise TypeError(f"sp_ids must be SparseTensor, got {type(ids).__name__}")
    if not isinstance(weights, (tf.SparseTensor, type(None))):
        raise TypeError(f"sp_weights must be None or SparseTensor, got {type(weights).__name__}")
    unknown = [each for each in combiners if each not in _COMBINERS]
    if unknown:
        raise ValueError(f"combiners must be of {', '.join(_COMBINERS)}, got {unknown[0]!r}")
    if ids.shape.rank != len(combiners) + 1:
        raise ValueError(
            "sp_ids must have a dimension for each combiner besides the batch, got "
            f"{len(combiners)} combiners for the shape {ids.shape}"
        )


def _segments(indices, dense_shape, axis):
    """(the segment of each row, its place in it, the places of segments [n, axis])."""
    cells = indices[:, 0]
    for before in range(1, axis):
        cells = cells * dense_shape[before] + indices[:, before]
    _, segments = tf.unique(cells)
    return segments, indices[:, axis], tf.math.segment_max(indices[:, :axis], segments)


def _combined(combiner, rows, segments, offsets, weights, size):
    """The combined rows of each segment; `weights` [n, 1] divide a mean, None: counts do."""
    if combiner == "tile":
        num_segments = tf.reduce_max(tf.concat([[-1], segments], 0)) + 1
        places = tf.stack([tf.cast(segments, tf.int64), offsets], 1)
        dim, given = rows.shape[1], tf.get_static_value(size)
        shape = tf.stack([tf.cast(num_segments, tf.int64), size, tf.shape(rows, tf.int64)[1]])
        tiled = tf.reshape(tf.scatter_nd(places, rows, shape), [-1, shape[1] * shape[2]])
        tiled.set_shape([None, None if dim is None or given is None else dim * int(given)])
        return tiled
    if combiner in ("max", "min"):
        combine = tf.math.segment_max if combiner == "max" else tf.math.segment_min
        return combine(rows, segments)
    sums = tf.math.segment_sum(rows, segments)
    if combiner == "sum":
        return sums
    if weights is None:
        weights = tf.ones([tf.shape(rows)[0], 1], rows.dtype)
    if combiner == "mean":
        return tf.math.divide_no_nan(sums, tf.math.segment_sum(weights, segments))
    return tf.math.divide_no_nan(sums, tf.sqrt(tf.math.segment_sum(weights**2, segments)))
