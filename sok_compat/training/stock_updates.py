# SPDX-License-Identifier: Apache-2.0
"""What OptimizerScope makes of the update ops that stock optimizers build for tables.

A table's gradient names each row once. A stock optimizer does not know that: it looks for repeats
again before it updates. In the scope that search is left out, and the updates of gradient descent,
Momentum, Adagrad, RMSProp and Ftrl are done by a fused op. The numbers of a step are the stock
optimizer's: those of gradient descent to the bit, the others to about six digits, since
TensorFlow's kernels take other roots or another order.
"""

import tensorflow as tf

from sok_compat.runtime.tf_versions import reroute_input
from sok_compat.tables.rows.row_ids import rows_are_distinct
from sok_compat.training.stock_rules import AppliedRule, inputs_of, rule_of

# The second one is gradient descent's.
_SPARSE_UPDATES = ("ResourceSparseApply", "ResourceScatterAdd")


def speed_up(operations, tables):
    """Rewires the sparse updates of tables among operations that have not run yet.

    Args:
      operations: of one graph, or of one function that is being traced.
      tables: Tables that it uses.
    """
    updates = [op for op in operations if op.type.startswith(_SPARSE_UPDATES)]
    if not updates:
        return
    by_handle = _tables_by_handle(updates[0].graph, tables)
    for op in updates:
        table = by_handle.get(op.inputs[0].name)
        if table is None:
            continue
        if op.type == "ResourceScatterAdd":
            _speed_up_descent(op, table)
        else:
            _speed_up(op, table)


def _tables_by_handle(graph, tables):
    """{name of the tensor that is the handle of a table's rows in `graph`: the table}."""
    by_handle = {t.handle.name: t for t in tables if tf.is_symbolic_tensor(t.handle)}
    for outside, inside in getattr(graph, "captures", ()):  # a function's
        for table in tables:
            if outside is table.handle:
                by_handle[inside.name] = table
    return by_handle


def _speed_up(op, table):
    names = list(inputs_of(op))
    grad, indices = (op.inputs[names.index(name)] for name in ("grad", "indices"))
    if not _is_merged_in_vain(grad, indices):
        return
    values, row_ids = grad.op.inputs[0], indices.op.inputs[0]
    rule = rule_of(op)
    if rule is not None and _can_fuse(op, table, rule):
        values, row_ids = _fuse(op, table, rule, values, row_ids)
    reroute_input(op, names.index("grad"), values)
    reroute_input(op, names.index("indices"), row_ids)


def _speed_up_descent(op, table):
    """rows += -gradient * learning rate."""
    row_ids, product = op.inputs[1], op.inputs[2].op
    if product.type != "Mul" or product.inputs[0].op.type != "Neg":
        return
    rule = AppliedRule("sgd", [], [product.inputs[1]])
    if rows_are_distinct(row_ids) and _can_fuse(op, table, rule):
        values, row_ids = _fuse(op, table, rule, product.inputs[0].op.inputs[0], row_ids)
        reroute_input(op, 1, row_ids)
        reroute_input(op, 2, values)


def _can_fuse(op, table, rule):
    """In a graph: in a function, an op made now would run after what was made since the update."""
    return op.inputs[0] is table.handle and rule.fits(table)


def _fuse(op, table, rule, values, row_ids):
    """Makes the op that does an update, and returns the (gradients, row ids) that are left for the
    stock one: none. It stays, as what the optimizer returned depends on it."""
    with tf.device(table.device), tf.control_dependencies(op.control_inputs):
        fused = rule.apply(table, values, tf.cast(row_ids, tf.int64))
    with tf.control_dependencies([fused]):
        return tf.zeros([0, table.dim]), tf.zeros([0], row_ids.dtype)


def _is_merged_in_vain(grad, indices):
    """Whether `grad` and `indices` are what TensorFlow's merging makes of rows named once."""
    return (
        indices.op.type == "Unique"
        and grad.op.type == "UnsortedSegmentSum"
        and grad.op.inputs[1].op is indices.op
        and rows_are_distinct(indices.op.inputs[0])
    )
