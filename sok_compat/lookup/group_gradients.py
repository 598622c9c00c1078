# SPDX-License-Identifier: Apache-2.0
"""Gradients of a group's ops: one slice for each row that was read."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Optional, Union

import tensorflow as tf

from sok_compat.lookup.admission import (
    admission_of,
    admit_keys,
    occurrences,
    places_to_train,
    remember_admission,
)
from sok_compat.lookup.find_rows import insert_absent
from sok_compat.ranks.collectives import gradient_occurrence
from sok_compat.runtime.op_arguments import arguments_of, gradients_of
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import constant_value, variable_shape
from sok_compat.tables.rows.row_ids import kept_as

if TYPE_CHECKING:
    # One for each input of an op.
    Gradients = list[Optional[Union[tf.Tensor, tf.IndexedSlices]]]

# {type of an op: the gradient that replaces its own} to insert keys. COUNTING also counts them in
# the tables' histories.
INSERTING = {
    "SokPoolRows": "SokPoolRowsThenInsert",
    "SokExchangeRows": "SokExchangeRowsThenInsert",
}
COUNTING = {
    "SokPoolRows": "SokPoolRowsThenCount",
    "SokExchangeRows": "SokExchangeRowsThenCount",
}


def _as_tensors(gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    return [tf.convert_to_tensor(gradient) for gradient in gradients]


def _none(values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Empty weights or factors."""
    return [tf.constant([], tf.float32)] * len(values)


tf.no_gradient("SokExchangeKeys")  # for its weights and factors


@tf.RegisterGradient("SokPoolRows")
def _pool_rows_gradient(op: tf.Operation, *gradients: tf.Tensor) -> Gradients:
    with tf.device(op.inputs[0].device):  # that of the tables
        return _pool_rows_gradient_there(op, gradients, inserts=False)


@tf.RegisterGradient(INSERTING["SokPoolRows"])
def _pool_rows_gradient_with_insertion(op: tf.Operation, *gradients: tf.Tensor) -> Gradients:
    with tf.device(op.inputs[0].device):
        return _pool_rows_gradient_there(op, gradients, inserts=True)


@tf.RegisterGradient(COUNTING["SokPoolRows"])
def _pool_rows_gradient_with_counts(op: tf.Operation, *gradients: tf.Tensor) -> Gradients:
    given = arguments_of(op)
    with tf.device(op.inputs[0].device):
        rows_to_train = admission_of(op)
        if rows_to_train is None:
            counts = [occurrences(*item) for item in zip(given.inverse, given.row_ids)]
            rows_to_train = _admit(op, given, counts)
        merged = _merged_after_reads(op, gradients, given, given.row_ids, given.inverse)
        return gradients_of(op, rows=_trained_slices(op, given.rows, merged, rows_to_train))


def _pool_rows_gradient_there(
    op: tf.Operation, gradients: Sequence[tf.Tensor], inserts: bool
) -> Gradients:
    given = arguments_of(op)
    row_ids, inverse = given.row_ids, given.inverse
    all_have_rows = inserts or op.get_attr("all_keys_have_rows")
    if inserts:
        row_ids = insert_absent(given.tables, given.keys, row_ids, given.absent_rows)
    elif not all_have_rows:  # the keys may repeat
        distinct, numbers = ops.sok_distinct_keys(row_ids, N=len(row_ids))
        row_ids = [kept_as(*ids) for ids in zip(distinct, row_ids)]
        inverse = [tf.gather(number, places) for number, places in zip(numbers, inverse)]
    merged = _merged_after_reads(op, gradients, given, row_ids, inverse)
    return gradients_of(op, rows=_slices(op, given.rows, merged, row_ids, all_have_rows))


def _merged_after_reads(
    op: tf.Operation,
    gradients: Sequence[tf.Tensor],
    given: SimpleNamespace,
    row_ids: Sequence[tf.Tensor],
    inverse: Sequence[tf.Tensor],
) -> list[tf.Tensor]:
    # The forward pass must read its rows before an optimizer changes them, even if the gradient
    # does not depend on the output.
    with tf.control_dependencies([tf.identity(op.outputs[0])]):  # captured in a tf.cond
        return ops.sok_merge_gradients(
            gradients=_as_tensors(gradients),
            counted=row_ids,
            inverse=inverse,
            row_splits=given.row_splits,
            weights=given.weights,
            factors=_none(given.weights),
            combiners=op.get_attr("combiners"),
        )


def _admit(
    op: tf.Operation, given: SimpleNamespace, counts: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    """Counts the keys of a lookup, once for all gradients through it, and admits them."""
    rows_to_train = admit_keys(given.tables, given.keys, given.row_ids, counts, given.absent_rows)
    remember_admission(op, rows_to_train)
    return rows_to_train


@tf.RegisterGradient("SokMergeGradients")
def _merge_gradients_gradient(op: tf.Operation, *gradients: tf.Tensor) -> Gradients:
    """Second order: spreads the values of a row to its occurrences, as a lookup does."""
    given = arguments_of(op)
    spread = ops.sok_pool_received_rows(
        rows=_as_tensors(gradients),
        inverse=given.inverse,
        row_splits=given.row_splits,
        weights=given.weights,
        factors=given.factors,
        combiners=op.get_attr("combiners"),
        rows_may_be_alone=op.get_attr("rows_may_be_alone"),
    )
    return gradients_of(op, gradients=list(spread))


@tf.RegisterGradient("SokExchangeRows")
def _exchange_rows_gradient(op: tf.Operation, *gradients: tf.Tensor) -> Gradients:
    given = arguments_of(op)
    return _exchange_rows_gradient_at(op, gradients, given, given.row_ids, inserts=False)


@tf.RegisterGradient(INSERTING["SokExchangeRows"])
def _exchange_rows_gradient_with_insertion(op: tf.Operation, *gradients: tf.Tensor) -> Gradients:
    given = arguments_of(op)
    with tf.device(op.inputs[0].device):
        row_ids = insert_absent(given.tables, given.keys, given.row_ids, given.absent_rows)
    return _exchange_rows_gradient_at(op, gradients, given, row_ids, inserts=True)


def _exchange_rows_gradient_at(
    op: tf.Operation,
    gradients: Sequence[tf.Tensor],
    given: SimpleNamespace,
    row_ids: Sequence[tf.Tensor],
    inserts: bool,
) -> Gradients:
    all_have_rows = inserts or op.get_attr("all_keys_have_rows")
    with tf.device(given.rows[0].device):
        received = _exchanged_gradients(op, given, _as_tensors(gradients))
        merged = _merged_at_owner(received, given, row_ids)
        return gradients_of(op, rows=_slices(op, given.rows, merged, row_ids, all_have_rows))


@tf.RegisterGradient(COUNTING["SokExchangeRows"])
def _exchange_rows_gradient_with_counts(op: tf.Operation, *gradients: tf.Tensor) -> Gradients:
    """Also sends, with the first gradients, the number of occurrences of each reply as float32: the
    owner of a row does not know them."""
    given = arguments_of(op)
    values = _as_tensors(gradients)
    with tf.device(given.rows[0].device):
        rows_to_train = admission_of(op)
        if rows_to_train is None:
            counts = [
                occurrences(replies, gradient[:, 0])[:, tf.newaxis]
                for gradient, replies in zip(values, given.replies)
            ]
            received, counts = _exchanged_gradients_and_counts(op, given, values, counts)
            counts = _merged_at_owner(counts, given, given.row_ids, are_weighted=False)
            rows_to_train = _admit(op, given, [tf.reshape(count, [-1]) for count in counts])
        else:
            received = _exchanged_gradients(op, given, values)
        merged = _merged_at_owner(received, given, given.row_ids)
        return gradients_of(op, rows=_trained_slices(op, given.rows, merged, rows_to_train))


def _exchanged_gradients(
    op: tf.Operation, given: SimpleNamespace, gradients: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    """Returns the gradients of the replies that this rank sent, [replies, columns]."""
    return _exchanged(given, gradients, _wire_dtypes(op), 1)


def _exchanged_gradients_and_counts(
    op: tf.Operation,
    given: SimpleNamespace,
    gradients: Sequence[tf.Tensor],
    counts: Sequence[tf.Tensor],
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """As _exchanged_gradients, and exchanges counts [replies, columns] unchanged."""
    wire_dtypes = [*_wire_dtypes(op), *["float32"] * len(counts)]
    received = _exchanged(given, [*gradients, *counts], wire_dtypes, 2)
    return received[: len(gradients)], received[len(gradients) :]


def _exchanged(
    given: SimpleNamespace, values: Sequence[tf.Tensor], wire_dtypes: Sequence[str], times: int
) -> list[tf.Tensor]:
    return ops.sok_exchange_gradients(
        gradients=values,
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


def _merged_at_owner(
    received: Sequence[tf.Tensor],
    given: SimpleNamespace,
    row_ids: Sequence[tf.Tensor],
    are_weighted: bool = True,
) -> list[tf.Tensor]:
    no_factors = _none(row_ids)
    return ops.sok_merge_gradients(
        gradients=received,
        counted=row_ids,
        inverse=given.inverse,
        row_splits=given.requested_splits,
        weights=given.requested_weights if are_weighted else no_factors,
        factors=no_factors,
        combiners=["sum"] * len(row_ids),
        rows_may_be_alone=True,
    )


@tf.RegisterGradient("SokExchangeGradients")
def _exchange_gradients_gradient(op: tf.Operation, *gradients: tf.Tensor) -> Gradients:
    """Second order: returns values to the ranks that sent the gradients."""
    given = arguments_of(op)
    with tf.device(op.outputs[0].device):
        returned = ops.sok_exchange_gradients(
            gradients=_as_tensors(gradients),
            requested_counts=given.reply_counts,
            reply_counts=given.requested_counts,
            collective=given.collective,
            occurrence=gradient_occurrence(given.collective),
            wire_dtypes=_wire_dtypes(op),
        )
    return gradients_of(op, gradients=list(returned))


@tf.RegisterGradient("SokPoolReceivedRows")
def _pool_received_rows_gradient(op: tf.Operation, *gradients: tf.Tensor) -> Gradients:
    given = arguments_of(op)
    merged = ops.sok_merge_gradients(
        gradients=_as_tensors(gradients),
        counted=given.rows,
        inverse=given.inverse,
        row_splits=given.row_splits,
        weights=given.weights,
        factors=given.factors,
        combiners=op.get_attr("combiners"),
        rows_may_be_alone=op.get_attr("rows_may_be_alone"),
    )
    return gradients_of(op, rows=list(merged))


def _slices(
    op: tf.Operation,
    rows: Sequence[tf.Tensor],
    merged: Sequence[tf.Tensor],
    row_ids: Sequence[tf.Tensor],
    all_have_rows: bool,
) -> list[tf.IndexedSlices]:
    """Returns the tables' gradients: one slice for each row that the op read."""
    dims = op.get_attr("dims")
    return [_slices_of_table(*table, all_have_rows) for table in zip(rows, merged, row_ids, dims)]


def _trained_slices(
    op: tf.Operation,
    rows: Sequence[tf.Tensor],
    merged: Sequence[tf.Tensor],
    rows_to_train: Sequence[tf.Tensor],
) -> list[tf.IndexedSlices]:
    """As _slices, for the keys that admit_keys gave these ids."""
    places = [places_to_train(ids) for ids in rows_to_train]
    merged = [tf.gather(values, where) for values, where in zip(merged, places)]
    row_ids = [tf.gather(ids, where) for ids, where in zip(rows_to_train, places)]
    return _slices(op, rows, merged, row_ids, all_have_rows=True)


def _slices_of_table(
    rows: tf.Tensor, merged: tf.Tensor, row_ids: tf.Tensor, dim: int, all_have_rows: bool
) -> tf.IndexedSlices:
    merged.set_shape([None, dim])
    if not all_have_rows:
        has_row = row_ids >= 0
        merged = tf.boolean_mask(merged, has_row)
        row_ids = kept_as(tf.boolean_mask(row_ids, has_row), row_ids)
    elif tf.is_symbolic_tensor(row_ids) and row_ids.graph is not tf.compat.v1.get_default_graph():
        row_ids = tf.identity(row_ids)  # captured by a separate gradient function
    return tf.IndexedSlices(merged, row_ids, dense_shape_of(rows))


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
