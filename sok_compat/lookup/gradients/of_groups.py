# SPDX-License-Identifier: Apache-2.0
"""Gradients of a group's ops: one slice for each row that was read."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Optional, Union

import tensorflow as tf

from sok_compat.lookup.gradients.admission import (
    admission_of,
    current_step,
    gradient_kind,
    must_count,
    occurrences,
    places_to_train,
    remember_admission,
)
from sok_compat.ranks.collectives import gradient_occurrence
from sok_compat.runtime.op_arguments import arguments_of, gradients_of
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import constant_value, variable_shape
from sok_compat.tables.rows.row_generations import ids_of_gradient, kept_as

if TYPE_CHECKING:
    # One for each input of an op.
    Gradients = list[Optional[Union[tf.Tensor, tf.IndexedSlices]]]


def _as_tensors(gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    return [tf.convert_to_tensor(gradient) for gradient in gradients]


def _none(values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Empty weights or factors."""
    return [tf.constant([], tf.float32)] * len(values)


tf.no_gradient("SokExchangeKeys")  # for its weights and factors


@tf.RegisterGradient("SokPoolRows")
def _pool_rows_gradient(op: tf.Operation, *gradients: tf.Tensor) -> Gradients:
    given = arguments_of(op)
    with tf.device(op.inputs[0].device):  # that of the tables
        row_ids, inverse = given.row_ids, given.inverse
        are_distinct = op.get_attr("all_keys_have_rows") or gradient_kind(op) != "reads"
        if not are_distinct:
            distinct, numbers = ops.sok_distinct_keys(row_ids, N=len(row_ids))
            row_ids = [kept_as(*ids) for ids in zip(distinct, row_ids)]
            inverse = [tf.gather(number, places) for number, places in zip(numbers, inverse)]
        counts = []
        if must_count(op):
            counts = [occurrences(*item) for item in zip(inverse, row_ids)]
        trained = _rows_to_train(op, given, row_ids, counts)
        # The forward pass must read its rows before an optimizer changes them, even if the gradient
        # does not depend on the output.
        with tf.control_dependencies([tf.identity(op.outputs[0])]):  # captured in a tf.cond
            merged = ops.sok_merge_gradients(
                gradients=_as_tensors(gradients),
                counted=row_ids,
                inverse=inverse,
                row_splits=given.row_splits,
                weights=given.weights,
                factors=_none(given.weights),
                combiners=op.get_attr("combiners"),
            )
        return gradients_of(op, rows=_slices(op, given, merged, trained))


def _rows_to_train(
    op: tf.Operation,
    given: SimpleNamespace,
    row_ids: Sequence[tf.Tensor],
    counts: Sequence[tf.Tensor],
) -> Any:
    """Returns int64 [n] for each table: the rows of the keys; ids below 0 are not trained. `counts`
    says how often each key came, if `must_count`."""
    if gradient_kind(op) == "reads":
        return row_ids
    what, absent_rows = (given.tables, given.keys, row_ids), given.absent_rows
    # [0, dim]: the op library computes them.
    are_given = [tf.compat.dimension_value(rows.shape[0]) != 0 for rows in absent_rows]
    if gradient_kind(op) == "inserts":
        return ops.sok_insert_absent(*what, absent_rows, rows_are_given=are_given)
    if not counts:
        return admission_of(op)
    step = current_step()
    trained = ops.sok_admit_keys(*what, counts, absent_rows, step, rows_are_given=are_given)
    remember_admission(op, trained)  # once for all gradients through the lookup
    return trained


@tf.RegisterGradient("SokMergeGradients")
def _merge_gradients_gradient(op: tf.Operation, *gradients: tf.Tensor) -> Gradients:
    """Second order: spreads the values of a row to its occurrences, as a lookup does."""
    spread = ops.sok_pool_received_rows(rows=_as_tensors(gradients), **_bags_of(op))
    return gradients_of(op, gradients=list(spread))


def _bags_of(op: tf.Operation) -> dict[str, Any]:
    """Returns the inputs and attributes that SokMergeGradients and SokPoolReceivedRows share."""
    given = vars(arguments_of(op))
    inputs = {name: given[name] for name in ("inverse", "row_splits", "weights", "factors")}
    attributes = ("combiners", "rows_may_be_alone")
    return {**inputs, **{name: op.get_attr(name) for name in attributes}}


@tf.RegisterGradient("SokExchangeRows")
def _exchange_rows_gradient(op: tf.Operation, *gradients: tf.Tensor) -> Gradients:
    """Also sends, with the first gradients, how often each reply occurred, if keys are counted: the
    owner of a row does not know it."""
    given = arguments_of(op)
    values, wire_dtypes = _as_tensors(gradients), _wire_dtypes(op)
    with tf.device(given.rows[0].device):
        counts = []
        if must_count(op):
            counts = [
                occurrences(replies, value[:, 0])[:, tf.newaxis]
                for value, replies in zip(values, given.replies)
            ]
        wire_dtypes += ["float32"] * len(counts)
        received = _exchanged(given, [*values, *counts], wire_dtypes)
        received, counts = received[: len(values)], received[len(values) :]
        if counts:
            requested = given.requested_splits, given.inverse, given.row_ids
            counts = [_counted_at_owner(*item) for item in zip(counts, *requested)]
        trained = _rows_to_train(op, given, given.row_ids, counts)
        merged = _merged_at_owner(received, given)
        return gradients_of(op, rows=_slices(op, given, merged, trained))


def _exchanged(
    given: SimpleNamespace, values: Sequence[tf.Tensor], wire_dtypes: Sequence[str]
) -> list[tf.Tensor]:
    """Returns what the ranks sent for the replies that this rank sent, [replies, columns]."""
    times = len(values) // len(given.reply_counts)
    return ops.sok_exchange_values(
        values=values,
        requested_counts=given.requested_counts * times,
        reply_counts=given.reply_counts * times,
        collective=given.collective,
        occurrence=gradient_occurrence(given.collective),
        wire_dtypes=wire_dtypes,
    )


def _wire_dtypes(op: tf.Operation) -> list[str]:
    """Returns the wire dtype of each item of an exchange."""
    names = [name.decode() for name in op.get_attr("wire_dtypes")]
    return names or ["float32"] * op.get_attr("N")


def _merged_at_owner(received: Sequence[tf.Tensor], given: SimpleNamespace) -> list[tf.Tensor]:
    no_factors = _none(given.row_ids)
    return ops.sok_merge_gradients(
        gradients=received,
        counted=given.row_ids,
        inverse=given.inverse,
        row_splits=given.requested_splits,
        weights=given.requested_weights,
        factors=no_factors,
        combiners=["sum"] * len(given.row_ids),
        rows_may_be_alone=True,
    )


def _counted_at_owner(
    counts: tf.Tensor, splits: tf.Tensor, places: tf.Tensor, row_ids: tf.Tensor
) -> tf.Tensor:
    """Returns how often each key came, int32 [keys].

    Args:
      counts: int32 [sums, 1], how often each requested sum came.
      splits: int64 [sums + 1], of the rows of each sum; [0] if each is one row.
      places: int32 [rows]: the index of each one's key.
      row_ids: [keys].
    """
    numbers = tf.range(tf.size(places, tf.int64))
    sums = tf.searchsorted(splits, numbers, side="right", out_type=tf.int64) - 1
    of_rows = tf.gather(counts[:, 0], tf.where(tf.size(splits) > 0, sums, numbers))
    return tf.math.unsorted_segment_sum(of_rows, places, tf.size(row_ids))


@tf.RegisterGradient("SokExchangeValues")
def _exchange_gradients_gradient(op: tf.Operation, *gradients: tf.Tensor) -> Gradients:
    """Second order: returns values to the ranks that sent the gradients."""
    given, wire_dtypes = arguments_of(op), _wire_dtypes(op)
    floats = [i for i, value in enumerate(given.values) if value.dtype.is_floating]
    returned: list[tf.Tensor | None] = [None] * len(given.values)
    with tf.device(op.outputs[0].device):
        of_floats = ops.sok_exchange_values(
            values=_as_tensors([gradients[i] for i in floats]),
            requested_counts=[given.reply_counts[i] for i in floats],
            reply_counts=[given.requested_counts[i] for i in floats],
            collective=given.collective,
            occurrence=gradient_occurrence(given.collective),
            wire_dtypes=[wire_dtypes[i] for i in floats],
        )
    for i, gradient in zip(floats, of_floats):
        returned[i] = gradient
    return gradients_of(op, values=returned)


@tf.RegisterGradient("SokPoolReceivedRows")
def _pool_received_rows_gradient(op: tf.Operation, *gradients: tf.Tensor) -> Gradients:
    counted = arguments_of(op).rows
    merged = ops.sok_merge_gradients(
        gradients=_as_tensors(gradients), counted=counted, **_bags_of(op)
    )
    return gradients_of(op, rows=list(merged))


def _slices(
    op: tf.Operation,
    given: SimpleNamespace,
    merged: Sequence[tf.Tensor],
    row_ids: Sequence[tf.Tensor],
) -> list[tf.IndexedSlices]:
    """Returns the tables' gradients: one slice for each row that is trained."""
    items = zip(given.rows, merged, row_ids, op.get_attr("dims"))
    return [_slices_of_table(op, *item) for item in items]


def _slices_of_table(
    op: tf.Operation, rows: tf.Tensor, merged: tf.Tensor, row_ids: tf.Tensor, dim: int
) -> tf.IndexedSlices:
    merged.set_shape([None, dim])
    if gradient_kind(op) == "inserts" or op.get_attr("all_keys_have_rows"):
        if tf.is_symbolic_tensor(row_ids) and row_ids.graph is not tf.compat.v1.get_default_graph():
            row_ids = tf.identity(row_ids)  # captured by a separate gradient function
        ids = ids_of_gradient(rows, row_ids, row_ids)
        return tf.IndexedSlices(merged, ids, dense_shape_of(rows))
    counts = gradient_kind(op) == "counts"
    places = places_to_train(row_ids) if counts else tf.where(row_ids >= 0)[:, 0]
    ids = ids_of_gradient(rows, tf.gather(row_ids, places), row_ids)
    return tf.IndexedSlices(tf.gather(merged, places), ids, dense_shape_of(rows))


def dense_shape_of(rows: tf.Tensor) -> tf.Tensor:
    """Returns [capacity, dim]; without a capacity, the number of rows, up to the largest int32.

    It is int32 if it fits, as of stock lookups: tf.cond of control flow v1 merges only slices of
    equal types.
    """
    shape = variable_shape(rows, out_type=tf.int64)
    sizes = constant_value(shape)
    if sizes is None:
        return tf.cast(tf.minimum(shape, tf.int32.max), tf.int32)
    return tf.constant(sizes, tf.int32) if max(sizes) <= tf.int32.max else shape
