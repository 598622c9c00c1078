# SPDX-License-Identifier: Apache-2.0
"""Row ids outside of sessions: a gradient may be applied long after its lookup.

In a session a lookup and its update are one step, and row ids stay what they are. In eager mode,
and in functions outside of graphs, the indices of a gradient are row ids with a generation: numbers
that only lookups make, and that stock ops on indices (a concat, a unique, a copy) keep. At the
update the table tells from them whether the rows are still those of the keys.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.runtime import integrations
from sok_compat.runtime.op_library import ops
from sok_compat.tables.interface import TableInterface
from sok_compat.tables.resource_handles import table_of_rows
from sok_compat.tables.rows.dense_gradients import is_made_in_function
from sok_compat.tables.rows.row_ids import checked_row_ids, row_ids_of_step


def have_generations() -> bool:
    """Whether the row ids of gradients carry their generation: in eager mode, and in functions
    outside of graphs. A session needs none: a lookup and its update are one step."""
    return tf.compat.v1.executing_eagerly_outside_functions()


def ids_of_gradient(rows: tf.Tensor, row_ids: tf.Tensor, found: tf.Tensor) -> tf.Tensor:
    """Returns the indices of a gradient: row ids which `rows_of_ids` understands later.

    They are among those `found` by an op that finds rows, or by `kept_as`; `rows` is the handle of
    the table's rows.
    """
    table = table_of_rows(rows)
    is_of_key = table is not None and not table.use_hash_index  # whenever it is applied
    if is_of_key or not have_generations():
        return row_ids
    return ops.sok_add_generation(row_ids, found)


@tf.autograph.experimental.do_not_convert
def rows_of_gradient(variable: Any, gradient: tf.Tensor | tf.IndexedSlices) -> Any:
    """Returns a gradient whose indices are the rows that its keys have now.

    Slices of keys that have been evicted are left out. A dense gradient has no keys: it is taken if
    the graph shows that the same function made it, or if no key has ever lost its row since one was
    made.

    Args:
      variable: a Table, or another variable, whose gradient is returned as it is.
      gradient: of the variable: as lookups give it, or summed, joined, sorted or copied since.

    Raises:
      tf.errors.FailedPreconditionError: the table has been restored, loaded or initialized after
        the lookup; likewise, or keys have been evicted, after the first dense gradient was made,
        and the gradient is dense. In a function, when run.
      tf.errors.InvalidArgumentError: an index does not belong to a lookup; likewise.
    """
    if not getattr(variable, "use_hash_index", False):
        return gradient
    if not have_generations():
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        row_ids = checked_row_ids(variable, gradient.indices)
        return tf.IndexedSlices(gradient.values, row_ids, gradient.dense_shape)
    if not isinstance(gradient, tf.IndexedSlices):
        return _checked_dense(variable, gradient)
    rows, values = rows_of_ids(variable, gradient.indices, gradient.values)
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def _checked_dense(table: TableInterface, gradient: Any) -> Any:
    if gradient is None or is_made_in_function(table, gradient):
        return gradient
    with tf.device(table.device):
        check = ops.sok_check_dense_gradient(table.table_handle)
    if tf.executing_eagerly():
        return gradient
    with tf.control_dependencies([check]):
        return tf.identity(gradient)


def rows_of_ids(table: TableInterface, ids: Any, values: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (row ids, their values) of the indices and values of a gradient."""
    row_ids = row_ids_of_step(table, ids)
    if row_ids is not None:
        return row_ids, values
    ids = tf.cast(ids, tf.int64)
    with tf.device(table.device):
        row_ids, places = ops.sok_rows_of_ids(table.table_handle, tf.reshape(ids, [-1]))
        if table.history is None or _has_all(row_ids, ids):  # no key has lost its row
            return tf.reshape(row_ids, tf.shape(ids)), values
        return row_ids, tf.gather(values, places)


def _has_all(row_ids: tf.Tensor, ids: tf.Tensor) -> bool:
    return tf.executing_eagerly() and row_ids.shape[0] == ids.shape.num_elements()


def kept_as(row_ids: tf.Tensor, *found: tf.Tensor) -> tf.Tensor:
    """Returns row ids; as long as they live, tables reuse no row that one of `found`, row ids of
    ops that find rows, keeps.

    In a session a step keeps its rows until it ends, so they are returned as they are.
    """
    if have_generations():
        for each in found:
            row_ids = ops.sok_keep_rows(row_ids, each)
    return row_ids


def make_dense_gradients_by_row() -> None:
    """Makes TensorFlow add up the slices of a gradient by row id where it needs a dense tensor."""
    # Other slices have no generations, and their sums stay what they are.
    tf.register_tensor_conversion_function(tf.IndexedSlices, _dense, priority=90)


def _dense(slices, dtype=None, name=None, as_ref=False):
    del as_ref
    is_by_id = slices.indices.dtype == tf.int64 and have_generations()
    if not is_by_id or slices.dense_shape is None or (dtype or slices.dtype) != slices.dtype:
        return NotImplemented
    row_ids, places = ops.sok_rows_to_make_dense(slices.indices)
    values = slices.values
    if not _has_all(row_ids, slices.indices):  # keys may have lost their rows
        values = tf.gather(values, places)
    return tf.math.unsorted_segment_sum(values, row_ids, slices.dense_shape[0], name=name)


integrations.when_there_are_tables(make_dense_gradients_by_row)
