# SPDX-License-Identifier: Apache-2.0
"""What OptimizerScope makes of the update ops that stock optimizers build for tables.

A table's gradient names each row once. A stock optimizer does not know that: it looks for repeats
again before it updates. In the scope that search is left out, and Adagrad's update is done by a
fused op. The numbers are the stock optimizer's.
"""

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import reroute_input
from sok_compat.tables.row_ids import rows_are_distinct


def speed_up(operations, tables):
    """Rewires the sparse updates of tables among operations that have not run yet.

    Args:
      operations: of one graph, or of one function that is being traced.
      tables: Tables that it uses.
    """
    updates = [op for op in operations if op.type.startswith("ResourceSparseApply")]
    if not updates:
        return
    by_handle = _tables_by_handle(updates[0].graph, tables)
    for op in updates:
        table = by_handle.get(op.inputs[0].name)
        if table is not None:
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
    names = [argument.name for argument in op.op_def.input_arg]
    grad, indices = op.inputs[names.index("grad")], op.inputs[names.index("indices")]
    if not _is_merged_in_vain(grad, indices):
        return
    values, row_ids = grad.op.inputs[0], indices.op.inputs[0]
    inputs = dict(zip(names, op.inputs))
    # In a function, an op made now would run after what was made since the update.
    if inputs["var"] is table.handle and _is_adagrad(op):
        with tf.device(table.device), tf.control_dependencies(op.control_inputs):
            fused = ops.sok_apply_adagrad(
                table.handle,
                inputs["accum"],
                table.table_handle,
                inputs["lr"],
                inputs.get("epsilon", tf.constant(0.0)),
                values,
                row_ids,
                row_ids_are_distinct=True,
            )
        # The stock op stays, as what the optimizer returned depends on it, with nothing to do.
        with tf.control_dependencies([fused]):
            values, row_ids = tf.zeros([0, table.shape[1]]), tf.zeros([0], tf.int64)
    reroute_input(op, names.index("grad"), values)
    reroute_input(op, names.index("indices"), row_ids)


def _is_adagrad(op):
    types = ("ResourceSparseApplyAdagrad", "ResourceSparseApplyAdagradV2")
    return op.type in types and op.get_attr("update_slots")


def _is_merged_in_vain(grad, indices):
    """Whether `grad` and `indices` are what TensorFlow's merging makes of rows named once."""
    return (
        indices.op.type == "Unique"
        and grad.op.type == "UnsortedSegmentSum"
        and grad.op.inputs[1].op is indices.op
        and rows_are_distinct(indices.op.inputs[0])
    )
