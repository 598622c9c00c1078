# SPDX-License-Identifier: Apache-2.0
"""One lookup: keys -> distinct keys -> row ids -> pooled rows, and its gradient."""

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import variable_shape


def lookup(variable, keys, insert):
    """The row of each key.

    Args:
      variable: the EmbeddingVariable.
      keys: int64 or uint32 [num_keys].
      insert: Python bool; a key that the table does not hold gets a row (True), or only its first
        value in the output (False).

    Returns:
      float32 [num_keys, dim], differentiable by `variable`.
    """
    return _lookup(variable, keys, tf.constant([], tf.int64), "none", insert)


def lookup_bags(variable, keys, row_splits, combiner, insert):
    """The pooled rows of each bag.

    Args:
      variable: the EmbeddingVariable.
      keys: int64 or uint32 [num_keys].
      row_splits: int64 [num_bags + 1], ascending from 0 to num_keys.
      combiner: 'sum' or 'mean' (over the keys in the bag, repeats counted).
      insert: see `lookup`.

    Returns:
      float32 [num_bags, dim], zeros for a bag without keys; differentiable by `variable`.
    """
    return _lookup(variable, keys, row_splits, combiner, insert)


def _lookup(variable, keys, row_splits, combiner, insert):
    with tf.device(variable.device):
        distinct_keys, inverse = ops.sok_distinct_keys(keys)
        row_ids, absent_rows = _find_rows(variable, distinct_keys, insert)
        return ops.sok_pool_rows(
            variable.tf_handle,
            variable.emb_handle,
            distinct_keys,
            row_ids,
            absent_rows,
            inverse,
            row_splits,
            combiner=combiner,
            dim=variable.shape[1],
            all_keys_have_rows=insert,
        )


def _find_rows(variable, keys, insert):
    """(row ids [n], -1 for keys without one; rows for those keys, or none: their first values)."""
    dim = variable.shape[1]
    no_rows = tf.zeros([0, dim], tf.float32)
    if variable.first_value.kind != "evaluated":
        return ops.sok_find_rows(variable.emb_handle, keys, insert=insert), no_rows
    row_ids = ops.sok_find_rows(variable.emb_handle, keys, insert=False)
    positions = tf.where(row_ids < 0)
    num_absent = tf.shape(positions, out_type=tf.int32)[0]
    absent_rows = variable.first_value.initializer(tf.stack([num_absent, dim]), dtype=tf.float32)
    if not insert:
        return row_ids, absent_rows
    absent_keys = tf.gather(keys, positions[:, 0])
    inserted = ops.sok_insert_rows(variable.emb_handle, absent_keys, absent_rows)
    return tf.tensor_scatter_nd_update(row_ids, positions, inserted), no_rows


@tf.RegisterGradient("SokPoolRows")
def _pool_rows_gradient(op, gradient):
    rows, _, _, row_ids, _, inverse, row_splits = op.inputs
    # The forward pass must have read its rows before an optimizer changes them, also where the
    # gradient does not depend on the output.
    with tf.control_dependencies([op.outputs[0]]):
        merged = ops.sok_merge_gradients(
            gradient, row_ids, inverse, row_splits, combiner=op.get_attr("combiner")
        )
    merged.set_shape([None, op.get_attr("dim")])
    if not op.get_attr("all_keys_have_rows"):
        has_row = row_ids >= 0
        merged, row_ids = tf.boolean_mask(merged, has_row), tf.boolean_mask(row_ids, has_row)
    shape = variable_shape(rows, out_type=tf.int64)
    return [tf.IndexedSlices(merged, row_ids, shape)] + [None] * 6


def rows_are_distinct(row_ids):
    """Whether a gradient's indices are known, from the graph, to name each row once."""
    while row_ids.op.type == "Identity":
        row_ids = row_ids.op.inputs[0]
    return row_ids.op.type in ("SokFindRows", "Range")
