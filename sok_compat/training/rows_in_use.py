# SPDX-License-Identifier: Apache-2.0
"""Updates of whole planes, turned into updates of the rows in use.

Stock Adam and its like let the slots of all rows decay, and then move all rows:

    m = m * beta1                           AssignVariableOp(m, Mul(read m, beta1))
    rows -= rate * m / (sqrt(v) + epsilon)  AssignSubVariableOp(rows, ...)

On a table this costs the declared capacity, almost all of it zeros that stay zeros: an unused row
gets fresh slots when its key comes. So elementwise expressions of planes of one table and scalars
that are assigned to a plane are computed for the rows in use only, by the same ops: the numbers are
the same bits. A stock optimizer's op with a dense gradient is replaced by the rules of
ops/engine/rules.h. TensorFlow's dense kernels compute RMSProp, Momentum with nesterov and Adagrad
in another order, so these steps give the same numbers to about six digits. Of tables with rows of
two bytes, which TensorFlow's ops cannot update, these rules replace sparse updates, too.

A tf.function is left alone: it runs every update that was traced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tensorflow as tf

from sok_compat.runtime.graphs import ops_before, outside
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import constant_value, members
from sok_compat.tables.plane_variable import PLANE_READS
from sok_compat.tables.rows.optimizer_updates import raise_for_stock_update
from sok_compat.tables.table import Table
from sok_compat.training.plane_updates import (
    PLANE_UPDATES,
    PlaneUpdate,
    is_read,
    is_read_for_good,
    unused,
)
from sok_compat.training.stock_rules import AppliedRule, inputs_of, rule_of

_SCATTERS = {
    "AssignVariableOp": tf.raw_ops.ResourceScatterUpdate,
    "AssignAddVariableOp": tf.raw_ops.ResourceScatterAdd,
    "AssignSubVariableOp": tf.raw_ops.ResourceScatterSub,
}


def update_rows_in_use_only(operations: Sequence[tf.Operation], tables: Sequence[Table]) -> None:
    """Replaces updates of whole planes among operations, in their order, that no session has run
    yet."""
    replaced = set()
    if operations and not operations[0].graph.building_function:
        rewriting = _Rewriting(operations, tables)
        rewriting.run()
        replaced = rewriting.replaced()
    _raise_for_stock_updates([op for op in operations if op not in replaced], tables)


def _raise_for_stock_updates(operations: Iterable[tf.Operation], tables: Iterable[Table]) -> None:
    """Raises NotImplementedError for ops of TensorFlow that would update rows of two bytes."""
    narrow = {id(table.handle): table for table in tables if table.row_dtype != tf.float32}
    for op in operations:
        if op.type.startswith(("ResourceApply", "ResourceSparseApply")):
            table = narrow.get(id(outside(op.inputs[0])[-1]))
            if table is not None:
                raise_for_stock_update(table, op.type)


class _Rewriting:
    def __init__(self, operations: Sequence[tf.Operation], tables: Sequence[Table]) -> None:
        self._operations = operations
        self._table_of = {p.handle.name: t for t in tables for p in (t, *t.slots)}
        self._row_dtypes = {table.handle.name: table.row_dtype for table in tables}
        self._updates = self._updates_to_replace()
        self._rules = self._rules_of_dense_updates(tables)
        self._gathers = [op for op in operations if self._gathers_from_a_slot(op)]
        inner = {op for update in self._updates for op in update.inner}
        self._left_out = unused(  # ops that no other op waits for any more
            [op for op in operations if op in inner or is_read(op, self._table_of)],
            without={update.op for update in self._updates} | set(self._gathers),
        )
        self._replaced: dict[tf.Operation, tf.Operation] = {}

    def run(self) -> None:
        for update in self._updates:
            self._replaced[update.op] = self._of_rows_in_use(update)
        for op, rule in self._rules.items():
            self._replaced[op] = self._by_rule(op, rule)
        for op in self._gathers:
            self._gather_from_the_slot(op)
        for op in self._operations:
            now = self._waited_for(op.control_inputs)
            if now != list(op.control_inputs):
                members.replace_control_inputs(op, now)

    def _updates_to_replace(self) -> list[PlaneUpdate]:
        updates = [
            PlaneUpdate(op, self._table_of, self._operations)
            for op in self._operations
            if op.type in PLANE_UPDATES and op.inputs[0].name in self._table_of
        ]
        return [u for u in updates if u.is_elementwise and u.reads_can_wait()]

    def _rules_of_dense_updates(self, tables: Sequence[Table]) -> dict[tf.Operation, AppliedRule]:
        handles = {table.handle.name for table in tables}
        narrow = {table.handle.name for table in tables if table.row_dtype != tf.float32}
        updates = [
            op
            for op in self._operations
            if (op.type.startswith("ResourceApply") and op.inputs[0].name in handles)
            or (op.type.startswith("ResourceSparseApply") and op.inputs[0].name in narrow)
        ]
        rules = {op: rule_of(op) for op in updates}
        return {
            op: rule
            for op, rule in rules.items()
            if rule is not None and rule.fits(self._table_of[op.inputs[0].name])
        }

    def replaced(self) -> set[tf.Operation]:
        """Returns the ops that nothing waits for any more."""
        return set(self._replaced)

    def _by_rule(self, op: tf.Operation, rule: AppliedRule) -> tf.Operation:
        """Makes the op that applies a gradient, a dense one to the rows in use."""
        table, inputs = self._table_of[op.inputs[0].name], inputs_of(op)
        gradient = inputs["delta"] if "delta" in inputs else inputs["grad"]
        before = [gradient, *self._waited_for(op.control_inputs)]  # they may bring rows into use
        with tf.device(table.device), tf.control_dependencies(before):
            if "indices" in inputs:
                return rule.apply(table, gradient, tf.cast(inputs["indices"], tf.int64))
            row_ids = ops.sok_rows_in_use(table.table_handle)
            return rule.apply(table, tf.gather(gradient, row_ids), row_ids)

    def _waited_for(self, control_inputs: Iterable[tf.Operation]) -> list[tf.Operation]:
        """Returns the control inputs without ops that are left out, and with replaced ops."""
        waited_for = {}
        for op in control_inputs:
            if op in self._left_out:
                after = self._left_out.union(op.control_inputs)
                before = [each for each in ops_before(op) if each in after]
                waited_for.update(dict.fromkeys(self._waited_for(before)))
            else:
                waited_for[self._replaced.get(op, op)] = None
        return list(waited_for)

    def _of_rows_in_use(self, update: PlaneUpdate) -> tf.Operation:
        """Makes the op that updates the rows in use, after all that the old ops waited for."""
        still_used = [  # reads of the values before the update
            op for op in update.inner if op.type in PLANE_READS and op not in self._left_out
        ]
        waited_for = self._waited_for([*update.waited_for(), *still_used])
        with tf.device(update.table.device), tf.control_dependencies(waited_for):
            row_ids = ops.sok_rows_in_use(update.table.table_handle)
            results: dict[str, tf.Tensor] = {}
            for op in update.inner:
                results[op.outputs[0].name] = self._for_rows(op, row_ids, results)
            return _SCATTERS[update.op.type](
                resource=update.op.inputs[0],
                indices=row_ids,
                updates=results[update.op.inputs[1].name],
            )

    def _gathers_from_a_slot(self, op: tf.Operation) -> bool:
        if op.type != "GatherV2" or op.inputs[0].op.type not in PLANE_READS:
            return False
        is_by_row = constant_value(op.inputs[2]) == 0 and op.get_attr("batch_dims") == 0
        read = op.inputs[0].op
        return (
            is_by_row
            and read in self._operations
            and is_read(read, self._table_of)
            and is_read_for_good(read, self._operations)
        )

    def _for_rows(
        self, op: tf.Operation, row_ids: tf.Tensor, results: dict[str, tf.Tensor]
    ) -> tf.Tensor:
        """Computes an op for some rows; `results` is {name of a tensor of planes: its rows}."""
        if op.type in PLANE_READS:
            return self._gathered(op, row_ids)
        names = [argument.name for argument in op.op_def.input_arg]
        inputs = {name: results.get(x.name, x) for name, x in zip(names, op.inputs)}
        return getattr(tf.raw_ops, op.type)(**inputs)

    def _gathered(self, read: tf.Operation, row_ids: tf.Tensor) -> tf.Tensor:
        """Rows of the plane that an op reads whole, of the dtype that it outputs."""
        plane = read.inputs[0]
        dtype = self._row_dtypes.get(plane.name, tf.float32)
        rows = tf.raw_ops.ResourceGather(resource=plane, indices=row_ids, dtype=dtype)
        return tf.cast(rows, read.outputs[0].dtype)

    def _gather_from_the_slot(self, op: tf.Operation) -> None:
        """Replaces a gather from a whole slot's read by a gather from the slot itself."""
        read = op.inputs[0].op
        waited_for = self._waited_for([*read.control_inputs, *op.control_inputs])
        device = self._table_of[read.inputs[0].name].device
        with tf.device(device), tf.control_dependencies(waited_for):
            rows = self._gathered(read, op.inputs[1])
        for consumer in op.outputs[0].consumers():
            for index, tensor in enumerate(consumer.inputs):
                if tensor is op.outputs[0]:
                    members.reroute_input(consumer, index, rows)
