# SPDX-License-Identifier: Apache-2.0
"""`embedding_lookup`: rows of an ordinary variable, pooled or not."""

import tensorflow as tf

from sok_compat.lookup.bags_of_keys import BagsOfKeys, split_bags
from sok_compat.lookup.ordinary import pooled_rows_of

COMBINERS = (None, "sum", "mean")

__all__ = ["embedding_lookup", "read_var_no_copy"]


@tf.autograph.experimental.do_not_convert
def embedding_lookup(param, ids, combiner=None):
    """Looks up rows, and pools those of each sample.

    API of distributed-embeddings. A sample without ids gives zeros.

    Args:
      param: a variable or tensor [rows, width].
      ids: the samples, int32 or int64: a tensor [batch, hotness], a tf.RaggedTensor [batch, (ids)]
        or a tf.SparseTensor [batch, hotness] in row order, whose values are the ids.
      combiner: 'sum', 'mean' (over the ids of a sample, each as often as it comes), or None.

    Returns:
      With a combiner [batch, width]. Without one, for each id its row: [batch, hotness, width], of
      ragged ids a tf.RaggedTensor [batch, (ids), width].

    Raises:
      TypeError: param is no tensor or variable; ids are no integers.
      ValueError: ids are not two-dimensional; an unknown combiner; sparse ids without one.
      tf.errors.InvalidArgumentError: when run: an id that is no row; unsorted sparse rows.
    """
    if not tf.is_tensor(param):
        raise TypeError(f"param must be Tensor, got {type(param).__name__}")
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


def checked_combiner(combiner):
    """`combiner`, if it is one.

    Raises:
      ValueError: it is none.
    """
    if combiner not in COMBINERS:
        raise ValueError(f"combiner must be None, 'sum' or 'mean', got {combiner!r}")
    return combiner


def read_var_no_copy(variable):
    """The value of a variable; TensorFlow's own read copies nothing.

    API of distributed-embeddings.
    """
    return tf.convert_to_tensor(variable)


def _rows(param, ids):
    if isinstance(ids, tf.SparseTensor):
        raise ValueError("sparse ids need a combiner, 'sum' or 'mean', got None")
    if isinstance(ids, tf.RaggedTensor):
        return ids.with_flat_values(tf.gather(param, ids.flat_values))
    return tf.gather(param, ids)


def _pooled_bags(param, ids, combiner):
    (bags,) = split_bags([BagsOfKeys(ids, "embedding_lookup")])
    pooled = pooled_rows_of(param, bags.keys, bags.row_splits, combiner)
    pooled.set_shape([ids.shape[0], param.shape[1]])
    return pooled


def _pooled_dense(param, ids, combiner):
    if ids.shape[1] == 1:
        return tf.gather(param, ids[:, 0])
    batch, hotness = tf.unstack(tf.shape(ids, out_type=tf.int64))
    row_splits = tf.range(batch + 1) * hotness
    pooled = pooled_rows_of(param, tf.reshape(ids, [-1]), row_splits, combiner)
    pooled.set_shape([ids.shape[0], param.shape[1]])
    return pooled
