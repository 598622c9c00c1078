# SPDX-License-Identifier: Apache-2.0
"""A group of lookups: keys -> distinct keys -> row ids -> pooled rows, and its gradient.

Every step of a group is one op, whatever the number of tables, their dims, combiners and key
dtypes; on several ranks the group is one request of each exchange. One lookup is a group of one.
"""

import contextlib
import dataclasses
from typing import Optional

import tensorflow as tf

from sok_compat.lookup.find_rows import WITH_GRADIENT, find_rows, insert_absent
from sok_compat.lookup.keys import checked_keys
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import constant_value, variable_accessed, variable_shape
from sok_compat.runtime.tickets import begin_lookup, gradient_occurrence
from sok_compat.tables.table import Table

# Of ops whose gradient inserts keys, in the place of the gradients of these types.
_INSERTING = {
    "SokPoolRows": "SokPoolRowsThenInsert",
    "SokExchangeRows": "SokExchangeRowsThenInsert",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Lookup:
    """What is looked up in one table.

    table: the table.
    keys: [num_keys], in the table's key_dtype, or int32 for int64.
    row_splits: int64 [num_bags + 1], ascending from 0 to num_keys; None: nothing is pooled.
    combiner: of bags, 'sum' or 'mean' (over the keys in the bag, repeats counted; with weights,
      over their sum).
    weights: float32 [num_keys], what the row of each key in a bag is multiplied by; None: nothing.
      No gradient flows to them.
    """

    table: Table
    keys: tf.Tensor
    row_splits: Optional[tf.Tensor] = None
    combiner: str = "none"
    weights: Optional[tf.Tensor] = None

    def __post_init__(self):
        if (self.row_splits is None) != (self.combiner == "none"):
            raise ValueError(
                f"a lookup in {self.table.table_name} has row_splits and a combiner, or neither; "
                f"got the combiner {self.combiner!r}"
            )
        if self.weights is not None and self.row_splits is None:
            raise ValueError(f"weights are of bags: the lookup in {self.table.table_name} has none")


@tf.autograph.experimental.do_not_convert
def lookup_group(lookups, insert):
    """The rows of each lookup, pooled where it has bags.

    Args:
      lookups: list of `Lookup`; several may be of one table.
      insert: bool, or a scalar bool tensor; a key that its table does not hold gets a row (True),
        or only its first value in the output (False). WITH_GRADIENT: only its first value, and a
        row when a gradient of the output is computed.

    Returns:
      A float32 tensor for each lookup: [num_keys, dim], or [num_bags, dim] with zeros for a bag
      without keys; differentiable by the tables. Where only some of them are used, tables of the
      others get gradients of zeros.

    Raises:
      ValueError: insert is WITH_GRADIENT in eager mode, where nothing is known of gradients yet.
    """
    outputs = {}
    with _inserting_gradients() if insert is WITH_GRADIENT else contextlib.nullcontext():
        for group in _by_place(lookups):
            for lookup, output in zip(group, _lookup_on_device(group, insert)):
                outputs[lookup] = output
    return [outputs[lookup] for lookup in lookups]


def _inserting_gradients():
    if tf.executing_eagerly():
        raise ValueError("a lookup with insert=WITH_GRADIENT needs a graph or a tf.function")
    return tf.compat.v1.get_default_graph().gradient_override_map(_INSERTING)


def _by_place(lookups):
    groups = {}
    for lookup in lookups:
        table = lookup.table
        groups.setdefault((table.device, table.placement.is_spread), []).append(lookup)
    return groups.values()


def _lookup_on_device(group, insert):
    for lookup in group:
        variable_accessed(lookup.table)
    splits = [lookup.row_splits for lookup in group if lookup.row_splits is not None]
    with tf.device(group[0].table.device):
        with tf.control_dependencies(splits):  # no key of bags that are refused is inserted
            keys, inverse = _distinct_keys(group, insert)
        if group[0].table.placement.is_spread:
            return _lookup_at_owners(group, keys, inverse, insert)
        row_ids, absent_rows = find_rows([lookup.table for lookup in group], keys, insert)
        return ops.sok_pool_rows(
            **_handles(group),
            keys=keys,
            row_ids=row_ids,
            absent_rows=absent_rows,
            inverse=inverse,
            row_splits=_row_splits(group),
            weights=_weights(group),
            combiners=_combiners(group),
            dims=_dims(group),
            all_keys_have_rows=insert is True,
        )


def _lookup_at_owners(group, keys, inverse, insert):
    """The pooled rows of distinct keys, asked of the ranks that own them."""
    handles, dims, combiners = _handles(group), _dims(group), _combiners(group)
    name = "+".join(lookup.table.table_name for lookup in group)  # the same on all ranks
    ticket = begin_lookup(
        name if insert is not False else f"{name} (read)",
        "\n".join(f"{lookup.table.description()}, combiner {lookup.combiner}" for lookup in group),
    )
    asked = ops.sok_exchange_keys(
        tables=handles["tables"],
        keys=keys,
        inverse=inverse,
        row_splits=_row_splits(group),
        weights=_weights(group),
        ticket=ticket,
        combiners=combiners,
        dims=dims,
        key_bytes=[lookup.table.key_dtype.size for lookup in group],
        has_gradients=insert is not False,
    )
    row_ids, absent_rows = find_rows([lookup.table for lookup in group], asked.asked_keys, insert)
    rows = ops.sok_exchange_rows(
        **handles,
        keys=asked.asked_keys,
        row_ids=row_ids,
        absent_rows=absent_rows,
        inverse=asked.asked_places,
        asked_splits=asked.asked_splits,
        asked_weights=asked.asked_weights,
        asked_counts=asked.asked_counts,
        answer_counts=asked.answer_counts,
        ticket=ticket,
        dims=dims,
        all_keys_have_rows=insert is True,
    )
    return ops.sok_pool_received_rows(
        rows=rows,
        inverse=asked.answers,
        row_splits=asked.answer_splits,
        weights=asked.answer_weights,
        factors=asked.factors,
        combiners=combiners,
    )


def _handles(group):
    return {
        "rows": [lookup.table.handle for lookup in group],
        "tables": [lookup.table.table_handle for lookup in group],
    }


def _dims(group):
    return [lookup.table.dim for lookup in group]


def _combiners(group):
    return [lookup.combiner for lookup in group]


def _row_splits(group):
    none = tf.constant([], tf.int64)
    return [none if lookup.row_splits is None else lookup.row_splits for lookup in group]


def _weights(group):
    none = tf.constant([], tf.float32)
    return [none if lookup.weights is None else lookup.weights for lookup in group]


def _distinct_keys(group, insert):
    """([keys int64], [place of each occurrence's key among them]); distinct where need be."""
    keys = [checked_keys(lookup.table, lookup.keys) for lookup in group]
    inverse = [None] * len(group)
    repeated = []  # those that must be told apart
    for i, lookup in enumerate(group):
        if _needs_distinct_keys(lookup.table, insert):
            repeated.append(i)
        else:
            inverse[i] = tf.range(tf.size(keys[i]))
            keys[i] = tf.cast(keys[i], tf.int64)
    if repeated:
        distinct = ops.sok_distinct_keys([keys[i] for i in repeated], N=len(repeated))
        for i, *found in zip(repeated, *distinct):
            keys[i], inverse[i] = found
    return keys, inverse


def _needs_distinct_keys(table, insert):
    """Whether repeated keys have to be known. To find them again, which their cache lines still are
    near for, takes less time than to tell them apart."""
    travels = table.placement.is_spread  # each key once
    first = table.first_value
    return insert is not False or travels or first.is_given or first.kind == "preset"


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


@tf.RegisterGradient(_INSERTING["SokPoolRows"])
def _pool_rows_gradient_with_insertion(op, *gradients):
    with tf.device(op.inputs[0].device):
        return _pool_rows_gradient_there(op, gradients, inserts=True)


def _pool_rows_gradient_there(op, gradients, inserts):
    rows, tables, keys, row_ids, absent_rows, inverse, row_splits, weights = _lists(op, 8)
    all_have_rows = inserts or op.get_attr("all_keys_have_rows")
    if inserts:
        row_ids = insert_absent(tables, keys, row_ids, absent_rows)
    elif not all_have_rows:  # the keys may not have been made distinct
        row_ids, numbers = ops.sok_distinct_keys(row_ids, N=len(row_ids))
        inverse = [tf.gather(number, places) for number, places in zip(numbers, inverse)]
    # The forward pass must have read its rows before an optimizer changes them, also where the
    # gradient does not depend on the output.
    with tf.control_dependencies([tf.identity(op.outputs[0])]):  # captured, in a tf.cond
        merged = ops.sok_merge_gradients(
            gradients=_as_tensors(gradients),
            counted=row_ids,
            inverse=inverse,
            row_splits=row_splits,
            weights=weights,
            factors=_none(weights),
            combiners=op.get_attr("combiners"),
        )
    slices = _slices(op, rows, merged, row_ids, all_have_rows)
    return slices + [None] * (7 * len(rows))


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
    )
    return list(spread) + [None] * (5 * len(spread))


@tf.RegisterGradient("SokExchangeRows")
def _exchange_rows_gradient(op, *gradients):
    return _exchange_rows_gradient_at(op, gradients, _lists(op, 10)[3], inserts=False)


@tf.RegisterGradient(_INSERTING["SokExchangeRows"])
def _exchange_rows_gradient_with_insertion(op, *gradients):
    _, tables, keys, row_ids, absent_rows = _lists(op, 10)[:5]
    with tf.device(op.inputs[0].device):
        row_ids = insert_absent(tables, keys, row_ids, absent_rows)
    return _exchange_rows_gradient_at(op, gradients, row_ids, inserts=True)


def _exchange_rows_gradient_at(op, gradients, row_ids, inserts):
    rows, _, _, _, _, inverse, splits, weights, asked_counts, answer_counts = _lists(op, 10)
    all_have_rows = inserts or op.get_attr("all_keys_have_rows")
    ticket = op.inputs[-1]
    with tf.device(rows[0].device):
        received = ops.sok_exchange_gradients(
            gradients=_as_tensors(gradients),
            asked_counts=asked_counts,
            answer_counts=answer_counts,
            ticket=ticket,
            occurrence=gradient_occurrence(ticket),
        )
        merged = ops.sok_merge_gradients(
            gradients=received,
            counted=row_ids,
            inverse=inverse,
            row_splits=splits,
            weights=weights,
            factors=_none(weights),
            combiners=["sum"] * len(rows),
        )
        slices = _slices(op, rows, merged, row_ids, all_have_rows)
        return slices + [None] * (9 * len(rows) + 1)


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
    )
    return list(merged) + [None] * (4 * len(rows))


def _slices(op, rows, merged, row_ids, all_have_rows):
    """The gradients of the tables' rows: one slice for each row that the op read."""
    dims = op.get_attr("dims")
    return [_slices_of_table(*table, all_have_rows) for table in zip(rows, merged, row_ids, dims)]


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
