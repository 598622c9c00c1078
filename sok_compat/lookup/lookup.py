# SPDX-License-Identifier: Apache-2.0
"""One lookup: keys -> distinct keys -> row ids -> pooled rows, and its gradient."""

import tensorflow as tf

from sok_compat.lookup.keys import checked_keys
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import constant_value, variable_accessed, variable_shape


def lookup(variable, keys, insert):
    """The row of each key.

    Args:
      variable: the Table.
      keys: [num_keys], in the table's key_dtype, or int32 for int64.
      insert: bool, or a scalar bool tensor; a key that the table does not hold gets a row (True),
        or only its first value in the output (False).

    Returns:
      float32 [num_keys, dim], differentiable by `variable`.
    """
    keys = checked_keys(variable, keys)
    return _lookup(variable, keys, tf.constant([], tf.int64), "none", insert)


def lookup_bags(variable, keys, row_splits, combiner, insert):
    """The pooled rows of each bag.

    Args:
      variable: the Table.
      keys: [num_keys], in the table's key_dtype, or int32 for int64.
      row_splits: int64 [num_bags + 1], ascending from 0 to num_keys.
      combiner: 'sum' or 'mean' (over the keys in the bag, repeats counted).
      insert: see `lookup`.

    Returns:
      float32 [num_bags, dim], zeros for a bag without keys; differentiable by `variable`.
    """
    with tf.control_dependencies([row_splits]):  # no key of bags that are refused is inserted
        keys = tf.identity(checked_keys(variable, keys))
    return _lookup(variable, keys, row_splits, combiner, insert)


def _lookup(variable, keys, row_splits, combiner, insert):
    variable_accessed(variable)
    with tf.device(variable.device):
        if _needs_distinct_keys(variable, insert):
            keys_to_find, inverse = ops.sok_distinct_keys(keys)
        else:
            keys_to_find, inverse = tf.cast(keys, tf.int64), tf.range(tf.size(keys))
        if variable.placement.is_spread:
            return _lookup_at_owners(
                variable, keys_to_find, inverse, row_splits, combiner, insert, keys.dtype.size
            )
        row_ids, absent_rows = _find_rows(variable, keys_to_find, insert)
        return ops.sok_pool_rows(
            variable.handle,
            variable.table_handle,
            keys_to_find,
            row_ids,
            absent_rows,
            inverse,
            row_splits,
            combiner=combiner,
            dim=variable.shape[1],
            all_keys_have_rows=insert is True,
        )


def _needs_distinct_keys(variable, insert):
    """Whether repeated keys have to be known. To find them again, which their cache lines still are
    near for, takes less time than to tell them apart."""
    is_shared = variable.placement.is_spread  # each key travels once
    return insert is not False or is_shared or variable.first_value.kind in ("evaluated", "preset")


def _lookup_at_owners(variable, keys, inverse, row_splits, combiner, insert, key_bytes):
    """The pooled rows of distinct keys, asked of the ranks that own them."""
    dim = variable.shape[1]
    asked_keys, asked_places, asked_splits, asked_counts, answers, answer_splits, answer_counts = (
        ops.sok_exchange_keys(
            keys,
            inverse,
            row_splits,
            combiner=combiner,
            num_ranks=variable.ranks.size,
            key_bytes=key_bytes,
            dim=dim,
            has_gradients=insert is not False,
        )
    )
    own_keys, own_places = ops.sok_distinct_keys(asked_keys)
    row_ids, absent_rows = _find_rows(variable, own_keys, insert)
    rows = ops.sok_exchange_rows(
        variable.handle,
        variable.table_handle,
        own_keys,
        row_ids,
        absent_rows,
        tf.gather(own_places, asked_places),
        asked_splits,
        asked_counts,
        answer_counts,
        dim=dim,
        all_keys_have_rows=insert is True,
    )
    rows.set_shape([None, dim])
    return ops.sok_pool_received_rows(rows, answers, answer_splits, row_splits, combiner=combiner)


def _find_rows(variable, keys, insert):
    """(row ids [n], -1 for keys without one; rows for those keys, or none: their first values)."""
    if not isinstance(insert, bool):
        return tf.cond(
            insert,
            lambda: _find_rows(variable, keys, True),
            lambda: _find_rows(variable, keys, False),
        )
    dim = variable.shape[1]
    no_rows = tf.zeros([0, dim], tf.float32)
    if variable.first_value.kind != "evaluated":
        row_ids = ops.sok_find_rows(
            variable.table_handle, keys, insert=insert, keys_are_distinct=insert
        )
        return row_ids, no_rows
    row_ids = ops.sok_find_rows(variable.table_handle, keys, insert=False, keys_are_distinct=False)
    positions = tf.where(row_ids < 0)
    num_absent = tf.shape(positions, out_type=tf.int32)[0]
    absent_rows = variable.first_value.evaluate(tf.stack([num_absent, dim]))
    if not insert:
        return row_ids, absent_rows
    absent_keys = tf.gather(keys, positions[:, 0])
    inserted = ops.sok_insert_rows(variable.table_handle, absent_keys, absent_rows)
    return tf.tensor_scatter_nd_update(row_ids, positions, inserted), no_rows


@tf.RegisterGradient("SokPoolRows")
def _pool_rows_gradient(op, gradient):
    with tf.device(op.inputs[0].device):  # the table's
        return _pool_rows_gradient_there(op, gradient)


def _pool_rows_gradient_there(op, gradient):
    rows, _, _, row_ids, _, inverse, row_splits = op.inputs
    if not op.get_attr("all_keys_have_rows"):  # the keys may not have been made distinct
        row_ids, numbers = ops.sok_distinct_keys(row_ids)
        inverse = tf.gather(numbers, inverse)
    # The forward pass must have read its rows before an optimizer changes them, also where the
    # gradient does not depend on the output.
    with tf.control_dependencies([tf.identity(op.outputs[0])]):  # captured, in a tf.cond
        merged = ops.sok_merge_gradients(
            gradient, row_ids, inverse, row_splits, row_splits, combiner=op.get_attr("combiner")
        )
    return [_slices(op, rows, merged, row_ids)] + [None] * 6


@tf.RegisterGradient("SokMergeGradients")
def _merge_gradients_gradient(op, gradient):
    """Of second order: what is summed for a row is spread to its occurrences, as in a lookup."""
    _, _, inverse, row_splits, mean_splits = op.inputs
    spread = ops.sok_pool_received_rows(
        gradient, inverse, row_splits, mean_splits, combiner=op.get_attr("combiner")
    )
    return [spread] + [None] * 4


@tf.RegisterGradient("SokExchangeRows")
def _exchange_rows_gradient(op, gradient):
    rows, _, _, row_ids, _, inverse, asked_splits, asked_counts, answer_counts = op.inputs
    with tf.device(rows.device):
        received = ops.sok_exchange_gradients(gradient, asked_counts, answer_counts)
        merged = ops.sok_merge_gradients(
            received, row_ids, inverse, asked_splits, asked_splits, combiner="sum"
        )
        return [_slices(op, rows, merged, row_ids)] + [None] * 8


@tf.RegisterGradient("SokPoolReceivedRows")
def _pool_received_rows_gradient(op, gradient):
    rows, answers, answer_splits, row_splits = op.inputs
    places = tf.range(tf.shape(rows, out_type=tf.int64)[0])
    merged = ops.sok_merge_gradients(
        gradient, places, answers, answer_splits, row_splits, combiner=op.get_attr("combiner")
    )
    return merged, None, None, None


def _slices(op, rows, merged, row_ids):
    """The gradient of a table's rows: one slice for each row that the op read."""
    merged.set_shape([None, op.get_attr("dim")])
    if not op.get_attr("all_keys_have_rows"):
        has_row = row_ids >= 0
        merged, row_ids = tf.boolean_mask(merged, has_row), tf.boolean_mask(row_ids, has_row)
    elif tf.is_symbolic_tensor(row_ids) and row_ids.graph is not tf.compat.v1.get_default_graph():
        row_ids = tf.identity(row_ids)  # captured: the gradient is taken in a function of its own
    return tf.IndexedSlices(merged, row_ids, _dense_shape(rows))


def _dense_shape(rows):
    """[capacity, dim]; as int32, as of stock lookups, where it fits: tf.cond of control flow v1
    merges only slices of the same types."""
    shape = variable_shape(rows, out_type=tf.int64)
    sizes = constant_value(shape)
    fits = sizes is not None and max(sizes) <= tf.int32.max
    return tf.constant(sizes, tf.int32) if fits else shape
