# SPDX-License-Identifier: Apache-2.0
"""Speeds up the update ops that stock optimizers build for tables in an OptimizerScope.

A table's gradient contains each row once, but a stock optimizer merges repeats again before an
update. The scope removes this merge, and replaces updates of gradient descent, Momentum, Adagrad,
RMSProp and Ftrl by a fused op. The numbers are the stock optimizer's: for gradient descent to the
bit, for the others to about six digits, since TensorFlow's kernels compute roots, or order
operations, differently.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from sok_compat.runtime.graphs import outside
from sok_compat.runtime.tf_versions import members
from sok_compat.tables.rows.row_ids import rows_are_distinct
from sok_compat.tables.table import Table
from sok_compat.training.stock_rules import AppliedRule, inputs_of, rule_of

# Prefixes of op types; the second is gradient descent's.
_SPARSE_UPDATES = ("ResourceSparseApply", "ResourceScatterAdd")


def speed_up(operations: Sequence[tf.Operation], tables: Sequence[Table]) -> None:
    """Rewires the sparse updates of tables among operations of a graph, or of a function that is
    being traced, that have not run yet."""
    updates = [op for op in operations if op.type.startswith(_SPARSE_UPDATES)]
    if not updates:
        return
    by_handle = {id(table.handle): table for table in tables}
    for op in updates:
        table = by_handle.get(id(outside(op.inputs[0])[-1]))
        if table is None:
            continue
        if op.type == "ResourceScatterAdd":
            _speed_up_descent(op, table)
        else:
            _speed_up(op, table)


def _speed_up(op: tf.Operation, table: Table) -> None:
    names = list(inputs_of(op))
    grad, indices = (op.inputs[names.index(name)] for name in ("grad", "indices"))
    if not _is_merged_in_vain(grad, indices):
        return
    values, row_ids = grad.op.inputs[0], indices.op.inputs[0]
    rule = rule_of(op)
    if rule is not None and _can_fuse(op, table, rule):
        values, row_ids = _fuse(op, table, rule, values, row_ids)
    members.reroute_input(op, names.index("grad"), values)
    members.reroute_input(op, names.index("indices"), row_ids)


def _speed_up_descent(op: tf.Operation, table: Table) -> None:
    """rows += -gradient * learning rate."""
    row_ids, product = op.inputs[1], op.inputs[2].op
    if product.type != "Mul" or product.inputs[0].op.type != "Neg":
        return
    rule = AppliedRule("sgd", [], {"learning_rate": product.inputs[1]})
    if rows_are_distinct(row_ids) and _can_fuse(op, table, rule):
        values, row_ids = _fuse(op, table, rule, product.inputs[0].op.inputs[0], row_ids)
        members.reroute_input(op, 1, row_ids)
        members.reroute_input(op, 2, values)


def _can_fuse(op: tf.Operation, table: Table, rule: AppliedRule) -> bool:
    """True in graphs only: in a function, a new op would run after ops made since the update.

    The stock op, which stays, cannot take rows of two bytes: rows_in_use.py replaces it.
    """
    is_float32 = table.row_dtype == tf.float32
    return is_float32 and op.inputs[0] is table.handle and rule.fits(table)


def _fuse(
    op: tf.Operation, table: Table, rule: AppliedRule, values: tf.Tensor, row_ids: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Makes the fused op, and returns empty (gradients, row ids) for the stock op.

    The stock op stays, as the optimizer's result depends on it.
    """
    with tf.device(table.device), tf.control_dependencies(op.control_inputs):
        fused = rule.apply(table, values, tf.cast(row_ids, tf.int64))
    with tf.control_dependencies([fused]):
        return tf.zeros([0, table.dim]), tf.zeros([0], row_ids.dtype)


def _is_merged_in_vain(grad: tf.Tensor, indices: tf.Tensor) -> bool:
    """Whether `grad` and `indices` are TensorFlow's merge of rows that are distinct already."""
    return (
        indices.op.type == "Unique"
        and grad.op.type == "UnsortedSegmentSum"
        and grad.op.inputs[1].op is indices.op
        and rows_are_distinct(indices.op.inputs[0])
    )
