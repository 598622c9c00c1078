# SPDX-License-Identifier: Apache-2.0
"""Bags of keys in the forms that TensorFlow has for them, as keys and row splits."""

import tensorflow as tf

from sok_compat.runtime.op_library import ops


def keys_and_row_splits(bags, slot_num, max_nnz, name):
    """(keys [num_keys], row splits int64 [batch * slot_num + 1]) of the bags of a layer's batch.

    Args:
      bags: tf.SparseTensor [batch * slot_num, max_nnz] in row order, or tf.RaggedTensor
        [batch * slot_num, (keys)] or [batch, slot_num, (keys)].
      slot_num: bags of a sample.
      max_nnz: most keys in a bag.
      name: of the layer, for messages.

    Raises:
      TypeError: bags is neither a SparseTensor nor a RaggedTensor.
      ValueError: its rank does not fit.
      tf.errors.InvalidArgumentError: when run: bags that are no multiple of slot_num, more than
        max_nnz keys in a bag; a SparseTensor with unsorted rows, or other than one value for each
        index.
    """
    if isinstance(bags, tf.RaggedTensor):
        return _of_ragged(bags, slot_num, max_nnz, name)
    if not isinstance(bags, tf.SparseTensor):
        raise TypeError(
            f"{name}: sp_ids must be SparseTensor or RaggedTensor, got {type(bags).__name__} "
            "(All2AllDenseEmbedding takes dense tensors)"
        )
    rank = bags.shape.rank
    if rank not in (None, 2):
        raise ValueError(
            f"{name}: the SparseTensor must have rank 2, [batch * slot_num, max_nnz], got "
            f"rank {rank}"
        )
    row_splits = ops.sok_row_splits(
        bags.indices,
        bags.dense_shape,
        tf.size(bags.values, out_type=tf.int64),
        layer_name=name,
        slot_num=slot_num,
        max_nnz=max_nnz,
    )
    return bags.values, row_splits


def _of_ragged(bags, slot_num, max_nnz, name):
    if bags.flat_values.shape.rank != 1 or bags.ragged_rank > 2:
        raise ValueError(
            f"{name}: the RaggedTensor must be [batch * slot_num, (keys)] or [batch, slot_num, "
            f"(keys)], got shape {bags.shape} with ragged rank {bags.ragged_rank}"
        )
    checks = []
    if bags.ragged_rank == 2:
        checks.append(
            tf.debugging.assert_equal(
                bags.row_lengths(),
                tf.constant(slot_num, bags.row_splits.dtype),
                message=f"{name}: each sample of the RaggedTensor must have slot_num = {slot_num} "
                "slots",
            )
        )
        bags = bags.values
    else:
        checks.append(
            tf.debugging.assert_equal(
                bags.nrows() % slot_num,
                tf.constant(0, bags.row_splits.dtype),
                message=f"{name}: the rows of the RaggedTensor must be a multiple of slot_num = "
                f"{slot_num}; its rows are sample * slot_num + slot",
            )
        )
    checks.append(
        tf.debugging.assert_less_equal(
            bags.row_lengths(),
            tf.constant(max_nnz, bags.row_splits.dtype),
            message=f"{name}: a slot may have max_nnz = {max_nnz} keys",
        )
    )
    with tf.control_dependencies([check for check in checks if check is not None]):
        return tf.identity(bags.values), tf.cast(bags.row_splits, tf.int64)
