# SPDX-License-Identifier: Apache-2.0
"""`embedding_lookup`: rows of an ordinary variable, pooled or not."""

from __future__ import annotations

from typing import Any, Union

import tensorflow as tf

from sok_compat.lookup.bags_of_keys import BagsOfKeys, split_bags
from sok_compat.lookup.ordinary import pooled_rows_of_group

COMBINERS = (None, "sum", "mean")
Ids = Union[tf.Tensor, tf.RaggedTensor, tf.SparseTensor]  # or anything that converts to a tensor

__all__ = ["embedding_lookup", "read_var_no_copy"]


@tf.autograph.experimental.do_not_convert
def embedding_lookup(
    param: tf.Variable | tf.Tensor, ids: Ids, combiner: str | None = None
) -> tf.Tensor | tf.RaggedTensor:
    """Looks up rows, and pools those of each sample.

    API of distributed-embeddings. A sample without ids gives zeros.

    Args:
      param: a variable or tensor [rows, width].
      ids: int32 or int64 ids of the samples: a tensor [batch, hotness], a tf.RaggedTensor [batch,
        (ids)], or a tf.SparseTensor [batch, hotness] in row order with the ids as values.
      combiner: 'sum', 'mean' (over the ids of a sample, repeats counted), or None.

    Returns:
      With a combiner [batch, width]. Without one, the row of each id: [batch, hotness, width], or a
      tf.RaggedTensor [batch, (ids), width] for ragged ids.

    Raises:
      TypeError: param is not a tensor or variable of floats; ids are not int32 or int64.
      ValueError: param or ids are not two-dimensional; an unknown combiner; sparse ids without one.
      tf.errors.InvalidArgumentError: when run: an id is not a row; unsorted sparse rows.
    """
    if not tf.is_tensor(param):
        raise TypeError(f"param must be Tensor, got {type(param).__name__}")
    if not param.dtype.is_floating:
        raise TypeError(f"param must have floats, got {param.dtype.name}")
    if param.shape.rank not in (None, 2):
        raise ValueError(f"param must be [rows, width], got the shape {param.shape}")
    checked_combiner(combiner)
    if not isinstance(ids, (tf.RaggedTensor, tf.SparseTensor)):
        ids = tf.convert_to_tensor(ids)
    if ids.shape.rank not in (None, 2):
        raise ValueError(f"Only support 2D input, got the shape {ids.shape}")
    if ids.dtype not in (tf.int32, tf.int64):
        raise TypeError(f"ids must be int32 or int64, got {ids.dtype.name}")
    if combiner is None:
        return _rows(param, ids)
    if isinstance(ids, (tf.RaggedTensor, tf.SparseTensor)):
        return _pooled_bags(param, ids, combiner)
    return _pooled_dense(param, ids, combiner)


def checked_combiner(combiner: str | None) -> str | None:
    """Returns `combiner`.

    Raises:
      ValueError: it is not one of COMBINERS.
    """
    if combiner not in COMBINERS:
        raise ValueError(f"combiner must be None, 'sum' or 'mean', got {combiner!r}")
    return combiner


def read_var_no_copy(variable: tf.Variable) -> tf.Tensor:
    """Returns the value of a variable. API of distributed-embeddings.

    This is TensorFlow's own read, which copies nothing.

    Args:
      variable: any variable of TensorFlow, of any shape.
    """
    return tf.convert_to_tensor(variable)


def _rows(param: tf.Variable | tf.Tensor, ids: Ids) -> tf.Tensor | tf.RaggedTensor:
    if isinstance(ids, tf.SparseTensor):
        raise ValueError("sparse ids need a combiner, 'sum' or 'mean', got None")
    if isinstance(ids, tf.RaggedTensor):
        return ids.with_flat_values(tf.gather(param, ids.flat_values))
    return tf.gather(param, ids)


def _pooled_bags(param: tf.Variable | tf.Tensor, ids: Any, combiner: str) -> tf.Tensor:
    (bags,) = split_bags([BagsOfKeys(ids, "embedding_lookup")])
    (pooled,) = pooled_rows_of_group([param], [bags.keys], [bags.row_splits], [combiner])
    pooled.set_shape([ids.shape[0], param.shape[1]])
    return pooled


def _pooled_dense(param: tf.Variable | tf.Tensor, ids: tf.Tensor, combiner: str) -> tf.Tensor:
    if ids.shape[1] == 1:
        return tf.gather(param, ids[:, 0])
    rows = tf.gather(param, ids)  # summed in TensorFlow's order, which has the smaller error
    if combiner == "sum":
        return tf.reduce_sum(rows, 1)
    hotness = tf.maximum(tf.shape(ids)[1], 1)
    return tf.reduce_sum(rows, 1) / tf.cast(hotness, rows.dtype)
