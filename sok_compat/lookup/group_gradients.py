# SPDX-License-Identifier: Apache-2.0
"""Gradients of the ops of a group of lookups: one slice for each row that was read."""

import tensorflow as tf

from sok_compat.lookup.admission import (
    admission_of,
    admit_keys,
    occurrences,
    remember_admission,
)
from sok_compat.lookup.find_rows import insert_absent
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import constant_value, variable_shape
from sok_compat.runtime.tickets import gradient_occurrence

# Of ops whose gradient inserts keys, in the place of the gradients of these types; and where tables
# keep a history of their keys.
INSERTING = {
    "SokPoolRows": "SokPoolRowsThenInsert",
    "SokExchangeRows": "SokExchangeRowsThenInsert",
}
COUNTING = {
    "SokPoolRows": "SokPoolRowsThenCount",
    "SokExchangeRows": "SokExchangeRowsThenCount",
}


def _lists(op, num_lists):
    """The inputs of an op whose arguments are lists of one tensor for each item."""
    count = op.get_attr("N")
    inputs = list(op.inputs)
    return [inputs[count * i : count * (i + 1)] for i in range(num_lists)]


def _as_tensors(gradients):
    return [tf.convert_to_tensor(gradient) for gradient in gradients]


def _none(values):
    """For weights or factors that there are not."""
    return [tf.constant([], tf.float32)] * len(values)


tf.no_gradient("SokExchangeKeys")  # of its weights and factors


@tf.RegisterGradient("SokPoolRows")
def _pool_rows_gradient(op, *gradients):
    with tf.device(op.inputs[0].device):  # the tables'
        return _pool_rows_gradient_there(op, gradients, inserts=False)


@tf.RegisterGradient(INSERTING["SokPoolRows"])
def _pool_rows_gradient_with_insertion(op, *gradients):
    with tf.device(op.inputs[0].device):
        return _pool_rows_gradient_there(op, gradients, inserts=True)


@tf.RegisterGradient(COUNTING["SokPoolRows"])
def _pool_rows_gradient_with_counts(op, *gradients):
    rows, tables, keys, row_ids, absent_rows, inverse, row_splits, weights = _lists(op, 8)
    with tf.device(op.inputs[0].device):
        admitted = admission_of(op)
        if admitted is None:
            counts = [occurrences(*item) for item in zip(inverse, row_ids)]
            admitted = admit_keys(tables, keys, row_ids, counts, absent_rows)
            remember_admission(op, admitted)
        merged = _merged_after_reads(op, gradients, row_ids, inverse, row_splits, weights)
        return _trained_slices(op, rows, merged, *admitted) + [None] * (7 * len(rows))


def _pool_rows_gradient_there(op, gradients, inserts):
    rows, tables, keys, row_ids, absent_rows, inverse, row_splits, weights = _lists(op, 8)
    all_have_rows = inserts or op.get_attr("all_keys_have_rows")
    if inserts:
        row_ids = insert_absent(tables, keys, row_ids, absent_rows)
    elif not all_have_rows:  # the keys may not have been made distinct
        row_ids, numbers = ops.sok_distinct_keys(row_ids, N=len(row_ids))
        inverse = [tf.gather(number, places) for number, places in zip(numbers, inverse)]
    merged = _merged_after_reads(op, gradients, row_ids, inverse, row_splits, weights)
    slices = _slices(op, rows, merged, row_ids, all_have_rows)
    return slices + [None] * (7 * len(rows))


def _merged_after_reads(op, gradients, row_ids, inverse, row_splits, weights):
    # The forward pass must have read its rows before an optimizer changes them, also where the
    # gradient does not depend on the output.
    with tf.control_dependencies([tf.identity(op.outputs[0])]):  # captured, in a tf.cond
        return ops.sok_merge_gradients(
            gradients=_as_tensors(gradients),
            counted=row_ids,
            inverse=inverse,
            row_splits=row_splits,
            weights=weights,
            factors=_none(weights),
            combiners=op.get_attr("combiners"),
        )


@tf.RegisterGradient("SokMergeGradients")
def _merge_gradients_gradient(op, *gradients):
    """Of second order: what is summed for a row is spread to its occurrences, as in a lookup."""
    _, _, inverse, row_splits, weights, factors = _lists(op, 6)
    spread = ops.sok_pool_received_rows(
        rows=_as_tensors(gradients),
        inverse=inverse,
        row_splits=row_splits,
        weights=weights,
        factors=factors,
        combiners=op.get_attr("combiners"),
        rows_may_be_alone=op.get_attr("rows_may_be_alone"),
    )
    return list(spread) + [None] * (5 * len(spread))


@tf.RegisterGradient("SokExchangeRows")
def _exchange_rows_gradient(op, *gradients):
    return _exchange_rows_gradient_at(op, gradients, _lists(op, 11)[3], inserts=False)


@tf.RegisterGradient(INSERTING["SokExchangeRows"])
def _exchange_rows_gradient_with_insertion(op, *gradients):
    _, tables, keys, row_ids, absent_rows = _lists(op, 11)[:5]
    with tf.device(op.inputs[0].device):
        row_ids = insert_absent(tables, keys, row_ids, absent_rows)
    return _exchange_rows_gradient_at(op, gradients, row_ids, inserts=True)


def _exchange_rows_gradient_at(op, gradients, row_ids, inserts):
    rows, *_, inverse, splits, weights, _, _, _ = _lists(op, 11)
    all_have_rows = inserts or op.get_attr("all_keys_have_rows")
    with tf.device(rows[0].device):
        received = _exchanged_gradients(op, _as_tensors(gradients))
        merged = _merged_at_owner(received, row_ids, inverse, splits, weights)
        slices = _slices(op, rows, merged, row_ids, all_have_rows)
        return slices + [None] * (10 * len(rows) + 1)


@tf.RegisterGradient(COUNTING["SokExchangeRows"])
def _exchange_rows_gradient_with_counts(op, *gradients):
    """How often each answer counts travels with the first gradients, as float32: an owner that was
    asked for a row knows no occurrences."""
    rows, tables, keys, row_ids, absent_rows, inverse, splits, weights = _lists(op, 11)[:8]
    with tf.device(rows[0].device):
        admitted = admission_of(op)
        if admitted is not None:
            received = _exchanged_gradients(op, _as_tensors(gradients))
            merged = _merged_at_owner(received, row_ids, inverse, splits, weights)
            return _trained_slices(op, rows, merged, *admitted) + [None] * (10 * len(rows) + 1)
        gradients = _as_tensors(gradients)
        counts = [
            occurrences(answers, gradient[:, 0])[:, tf.newaxis]
            for gradient, answers in zip(gradients, _lists(op, 11)[10])
        ]
        received, counts = _exchanged_gradients_and_counts(op, gradients, counts)
        counts = _merged_at_owner(counts, row_ids, inverse, splits, _none(weights))
        counts = [tf.reshape(count, [-1]) for count in counts]
        admitted = admit_keys(tables, keys, row_ids, counts, absent_rows)
        remember_admission(op, admitted)
        merged = _merged_at_owner(received, row_ids, inverse, splits, weights)
        return _trained_slices(op, rows, merged, *admitted) + [None] * (10 * len(rows) + 1)


def _exchanged_gradients(op, gradients):
    """The gradients of what this rank has answered in an op, [answers, columns]."""
    return _exchanged(op, gradients, _wire_dtypes(op), 1)


def _exchanged_gradients_and_counts(op, gradients, counts):
    """As _exchanged_gradients, and what goes with them as it is, [answers, columns] too."""
    wire_dtypes = [*_wire_dtypes(op), *["float32"] * len(counts)]
    received = _exchanged(op, [*gradients, *counts], wire_dtypes, 2)
    return received[: len(gradients)], received[len(gradients) :]


def _exchanged(op, values, wire_dtypes, times):
    *_, asked_counts, answer_counts, _ = _lists(op, 11)
    ticket = op.inputs[-1]
    return ops.sok_exchange_gradients(
        gradients=values,
        asked_counts=asked_counts * times,
        answer_counts=answer_counts * times,
        ticket=ticket,
        occurrence=gradient_occurrence(ticket),
        wire_dtypes=wire_dtypes,
    )


def _wire_dtypes(op):
    """Of each item of an exchange."""
    names = [name.decode() for name in op.get_attr("wire_dtypes")]
    return names or ["float32"] * op.get_attr("N")


def _merged_at_owner(received, row_ids, inverse, splits, weights):
    return ops.sok_merge_gradients(
        gradients=received,
        counted=row_ids,
        inverse=inverse,
        row_splits=splits,
        weights=weights,
        factors=_none(weights),
        combiners=["sum"] * len(row_ids),
        rows_may_be_alone=True,
    )


@tf.RegisterGradient("SokExchangeGradients")
def _exchange_gradients_gradient(op, *gradients):
    """Of second order: back the way that the gradients came."""
    _, asked_counts, answer_counts = _lists(op, 3)
    ticket = op.inputs[-1]
    with tf.device(op.outputs[0].device):
        returned = ops.sok_exchange_gradients(
            gradients=_as_tensors(gradients),
            asked_counts=answer_counts,
            answer_counts=asked_counts,
            ticket=ticket,
            occurrence=gradient_occurrence(ticket),
            wire_dtypes=_wire_dtypes(op),
        )
    return list(returned) + [None] * (2 * len(returned) + 1)


@tf.RegisterGradient("SokPoolReceivedRows")
def _pool_received_rows_gradient(op, *gradients):
    rows, answers, answer_splits, weights, factors = _lists(op, 5)
    merged = ops.sok_merge_gradients(
        gradients=_as_tensors(gradients),
        counted=rows,
        inverse=answers,
        row_splits=answer_splits,
        weights=weights,
        factors=factors,
        combiners=op.get_attr("combiners"),
        rows_may_be_alone=op.get_attr("rows_may_be_alone"),
    )
    return list(merged) + [None] * (4 * len(rows))


def _slices(op, rows, merged, row_ids, all_have_rows):
    """The gradients of the tables' rows: one slice for each row that the op read."""
    dims = op.get_attr("dims")
    return [_slices_of_table(*table, all_have_rows) for table in zip(rows, merged, row_ids, dims)]


def _trained_slices(op, rows, merged, places, row_ids):
    """As _slices, of the keys at `places`, which have these row ids."""
    merged = [tf.gather(values, where) for values, where in zip(merged, places)]
    return _slices(op, rows, merged, row_ids, all_have_rows=True)


def _slices_of_table(rows, merged, row_ids, dim, all_have_rows):
    merged.set_shape([None, dim])
    if not all_have_rows:
        has_row = row_ids >= 0
        merged, row_ids = tf.boolean_mask(merged, has_row), tf.boolean_mask(row_ids, has_row)
    elif tf.is_symbolic_tensor(row_ids) and row_ids.graph is not tf.compat.v1.get_default_graph():
        row_ids = tf.identity(row_ids)  # captured: the gradient is taken in a function of its own
    return tf.IndexedSlices(merged, row_ids, _dense_shape(rows))


def _dense_shape(rows):
    """[capacity, dim]; as int32, as of stock lookups, where it fits: tf.cond of control flow v1
    merges only slices of the same types. Without a capacity, as many rows as there are, up to the
    largest int32."""
    shape = variable_shape(rows, out_type=tf.int64)
    sizes = constant_value(shape)
    if sizes is None:
        return tf.cast(tf.minimum(shape, tf.int32.max), tf.int32)
    return tf.constant(sizes, tf.int32) if max(sizes) <= tf.int32.max else shape
