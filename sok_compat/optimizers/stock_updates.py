# SPDX-License-Identifier: Apache-2.0
"""What OptimizerScope makes of the update ops that stock optimizers build for tables.

A table's gradient names each row once. A stock optimizer does not know that: it looks for repeats
again before it updates. In the scope that search is left out, and Adagrad's update is done by a
fused op. The numbers are the stock optimizer's.
"""

import tensorflow as tf

from sok_compat.lookup.lookup import rows_are_distinct
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import reroute_input


def speed_up(operations, tables):
    """Rewires the sparse updates of tables among operations that no session has run yet.

    Args:
      operations: of one graph.
      tables: EmbeddingVariables of that graph.
    """
    by_handle = {table.tf_handle.name: table for table in tables}
    for op in operations:
        table = by_handle.get(op.inputs[0].name) if op.inputs else None
        if table is not None and op.type.startswith("ResourceSparseApply"):
            _speed_up(op, table)


def _speed_up(op, table):
    names = [argument.name for argument in op.op_def.input_arg]
    grad, indices = op.inputs[names.index("grad")], op.inputs[names.index("indices")]
    if not _is_merged_in_vain(grad, indices):
        return
    values, row_ids = grad.op.inputs[0], indices.op.inputs[0]
    inputs = dict(zip(names, op.inputs))
    if op.type in ("ResourceSparseApplyAdagrad", "ResourceSparseApplyAdagradV2") and op.get_attr(
        "update_slots"
    ):
        with tf.device(table.device), tf.control_dependencies(op.control_inputs):
            fused = ops.sok_apply_adagrad(
                table.tf_handle,
                inputs["accum"],
                table.emb_handle,
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


def _is_merged_in_vain(grad, indices):
    """Whether `grad` and `indices` are what TensorFlow's merging makes of rows named once."""
    return (
        indices.op.type == "Unique"
        and grad.op.type == "UnsortedSegmentSum"
        and grad.op.inputs[1].op is indices.op
        and rows_are_distinct(indices.op.inputs[0])
    )
