# SPDX-License-Identifier: Apache-2.0
"""Updates of whole planes, turned into updates of the rows in use.

Stock Adam and its like let the slots of all rows decay, and then move all rows:

    m = m * beta1                           AssignVariableOp(m, Mul(read m, beta1))
    rows -= rate * m / (sqrt(v) + epsilon)  AssignSubVariableOp(rows, ...)

On a table that costs the declared capacity, and nearly all of it is zeros that stay zeros: a row
that no key has yet starts with fresh slots when its key comes. So what is computed, element by
element, from planes of one table and from scalars, and put back into a plane, is computed for the
rows in use only. The numbers are the same.

Not in a tf.function, which runs every update that was made while it was traced.
"""

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import (
    constant_value,
    replace_control_inputs,
    reroute_input,
)

_READS = ("ReadVariableOp", "SokReadRows")
_HARMLESS = (*_READS, "ResourceGather", "VariableShape")
_SCATTERS = {
    "AssignVariableOp": tf.raw_ops.ResourceScatterUpdate,
    "AssignAddVariableOp": tf.raw_ops.ResourceScatterAdd,
    "AssignSubVariableOp": tf.raw_ops.ResourceScatterSub,
}
_ELEMENTWISE = (
    *("Abs", "Identity", "Neg", "Rsqrt", "Sign", "Sqrt", "Square"),
    *("Add", "AddV2", "Div", "Maximum", "Minimum", "Mul", "Pow", "RealDiv", "Sub"),
    *("SquaredDifference",),
)
_SCALARS_SOMETIMES = ("Placeholder", "PlaceholderWithDefault")  # of unknown shape


def update_rows_in_use_only(operations, tables):
    """Replaces updates of whole planes among operations that no session has run yet.

    Args:
      operations: of one graph, in the order in which they were made.
      tables: EmbeddingVariables of that graph.
    """
    if not operations or operations[0].graph.building_function:
        return
    table_of = {plane.handle.name: t for t in tables for plane in (t, *t.slots)}
    replaced = {}
    for op in operations:
        if op.type in _SCATTERS and op.inputs[0].name in table_of:
            update = _PlaneUpdate(op, table_of)
            if update.is_elementwise and update.reads_are_current(operations):
                replaced[op] = update.of_rows_in_use(replaced)
    for op in operations:
        if op.type == "GatherV2" and _is_slot_read(op.inputs[0].op, table_of):
            _gather_from_plane(op, table_of, replaced)
    for op in operations:
        _forget_whole_planes(op, table_of, replaced)


def _is_read(op, table_of):
    return op.type in _READS and op.inputs[0].name in table_of


def _is_slot_read(op, table_of):
    return op.type == "ReadVariableOp" and _is_read(op, table_of)


def _gather_from_plane(op, table_of, replaced):
    """Rows of a slot that was read as a whole are gathered from the slot itself."""
    read = op.inputs[0].op
    if constant_value(op.inputs[2]) != 0 or op.get_attr("batch_dims") != 0:
        return
    table = table_of[read.inputs[0].name]
    waited_for = _resolve(read.control_inputs, table_of, replaced)
    with tf.device(table.device), tf.control_dependencies(waited_for):
        rows = tf.raw_ops.ResourceGather(
            resource=read.inputs[0], indices=op.inputs[1], dtype=tf.float32
        )
    for consumer in op.outputs[0].consumers():
        for index, tensor in enumerate(consumer.inputs):
            if tensor is op.outputs[0]:
                reroute_input(consumer, index, rows)


def _ancestors(ops_to_visit, among):
    """The ops of the set `among` that run before some ops, these included."""
    found, to_visit = set(), list(ops_to_visit)
    while to_visit:
        op = to_visit.pop()
        if op in among and op not in found:
            found.add(op)
            to_visit += [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
    return found


def _forget_whole_planes(op, table_of, replaced):
    """Where `op` waits for an update that was replaced, it waits for what took its place; where it
    waits for a plane to be read, for what the read waits for."""
    now = _resolve(op.control_inputs, table_of, replaced)
    if now != list(op.control_inputs):
        replace_control_inputs(op, now)


def _resolve(control_inputs, table_of, replaced):
    resolved = {}
    for op in control_inputs:
        if _is_read(op, table_of):
            resolved.update(dict.fromkeys(_resolve(op.control_inputs, table_of, replaced)))
        else:
            resolved[replaced.get(op, op)] = None
    return list(resolved)


class _PlaneUpdate:
    """One op that gives a whole plane new values, and the expression behind them."""

    def __init__(self, op, table_of):
        self._op = op
        self._table_of = table_of
        self._table = table_of[op.inputs[0].name]
        self._inner = []  # ops of the expression, each after its inputs
        self._reads = []
        self.is_elementwise = self._visit(op.inputs[1]) and bool(self._reads)

    def _visit(self, tensor):
        """Whether a tensor is a function, element by element, of planes of the table."""
        op = tensor.op
        if tensor.shape.rank == 0 or op.type in _SCALARS_SOMETIMES:
            return True
        if op in self._inner:
            return True
        if _is_read(op, self._table_of):
            self._reads.append(op)
            self._inner.append(op)
            return self._table_of[op.inputs[0].name] is self._table
        if op.type not in _ELEMENTWISE or not all(self._visit(x) for x in op.inputs):
            return False
        self._inner.append(op)
        return True

    def _waited_for(self):
        """What the ops of the expression and the update wait for, besides each other."""
        waited_for = [c for op in (*self._inner, self._op) for c in op.control_inputs]
        return [op for op in waited_for if op not in self._inner]

    def reads_are_current(self, operations):
        """Whether each plane could as well be read once all that is waited for has run: not if
        that updates it after the read, which is of the values before."""
        among = set(operations)
        before_update = _ancestors(self._waited_for(), among)
        for read in self._reads:
            before_read = _ancestors([read], among)
            for op in before_update - before_read:
                if op.inputs and op.inputs[0] is read.inputs[0] and op.type not in _HARMLESS:
                    return False
        return True

    def of_rows_in_use(self, replaced):
        """Makes the op that updates the rows in use, after all that the old ones waited for."""
        waited_for = _resolve(self._waited_for(), self._table_of, replaced)
        with tf.device(self._table.device), tf.control_dependencies(waited_for):
            row_ids = ops.sok_rows_in_use(self._table.emb_handle)
            results = {}
            for op in self._inner:
                results[op.outputs[0].name] = self._for_rows(op, row_ids, results)
            return _SCATTERS[self._op.type](
                resource=self._op.inputs[0],
                indices=row_ids,
                updates=results[self._op.inputs[1].name],
            )

    def _for_rows(self, op, row_ids, results):
        if op.type in _READS:
            return tf.raw_ops.ResourceGather(
                resource=op.inputs[0], indices=row_ids, dtype=tf.float32
            )
        names = [argument.name for argument in op.op_def.input_arg]
        inputs = {name: results.get(x.name, x) for name, x in zip(names, op.inputs)}
        return getattr(tf.raw_ops, op.type)(**inputs)
