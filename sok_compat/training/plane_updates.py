# SPDX-License-Identifier: Apache-2.0
"""Finds ops of a graph that read or update whole planes of tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sok_compat.runtime.graphs import ancestors, ops_before
from sok_compat.tables.plane_variable import PLANE_READS
from sok_compat.tables.table import Table

if TYPE_CHECKING:
    import tensorflow as tf


PLANE_UPDATES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
_ELEMENTWISE = (
    *("Abs", "Identity", "Neg", "Rsqrt", "Sign", "Sqrt", "Square"),
    *("Add", "AddV2", "Div", "Maximum", "Minimum", "Mul", "Pow", "RealDiv", "Sub"),
    *("SquaredDifference",),
)
_SCALARS_SOMETIMES = ("Placeholder", "PlaceholderWithDefault")  # of unknown shape
_LOOKUPS = ("SokPoolRows", "SokExchangeRows")
_CHANGE_NOTHING = (*PLANE_READS, *_LOOKUPS, "ResourceGather", "VariableShape")


def is_read(op: tf.Operation, table_of: dict[str, Table]) -> bool:
    """Whether an op reads a whole plane; `table_of` is {name of a plane's handle: its table}."""
    return op.type in PLANE_READS and op.inputs[0].name in table_of


class PlaneUpdate:
    """An op that updates a whole plane, and the expression that it assigns."""

    def __init__(
        self, op: tf.Operation, table_of: dict[str, Table], operations: Sequence[tf.Operation]
    ) -> None:
        self.op = op
        self.table = table_of[op.inputs[0].name]
        self.inner: list[tf.Operation] = []  # ops of the expression, each after its inputs
        self._reads: list[tf.Operation] = []
        self._table_of = table_of
        self._operations = operations
        is_function = self._visit(op.inputs[1])
        # Ops between an older read and `operations` are unknown.
        self.is_elementwise = is_function and set() < set(self._reads) <= set(operations)

    def _visit(self, tensor: tf.Tensor) -> bool:
        """Whether a tensor is an elementwise function of the table's planes."""
        op = tensor.op
        is_scalar_perhaps = op.type in _SCALARS_SOMETIMES and tensor.shape.rank is None
        if tensor.shape.rank == 0 or is_scalar_perhaps or op in self.inner:
            return True
        if is_read(op, self._table_of):
            self._reads.append(op)
            self.inner.append(op)
            return self._table_of[op.inputs[0].name] is self.table
        if op.type not in _ELEMENTWISE or not all(self._visit(x) for x in op.inputs):
            return False
        self.inner.append(op)
        return True

    def waited_for(self) -> list[tf.Operation]:
        """Returns the control inputs of the expression and the update, without its own ops."""
        waited_for = [c for op in (*self.inner, self.op) for c in op.control_inputs]
        return [op for op in waited_for if op not in self.inner]

    def reads_can_wait(self) -> bool:
        """Whether reads of the planes after all of `waited_for` give the same values.

        They do not if an update of a plane may run between its read and then.
        """
        among = set(self._operations)
        before_update = _ancestors(self.waited_for(), among)
        return not any(
            op in before_update - _ancestors([read], among)
            or _is_overtaken(read, self.op, op, self._operations)
            for read in self._reads
            for op in _updates_of_plane(read, self._operations)
        )


def _updates_of_plane(read: tf.Operation, operations: Iterable[tf.Operation]) -> list[tf.Operation]:
    return [op for op in operations if _is_update_of_plane(op, read)]


def _is_update_of_plane(op: tf.Operation, read: tf.Operation) -> bool:
    return op.type not in _CHANGE_NOTHING and any(x is read.inputs[0] for x in op.inputs)


def _is_overtaken(
    read: tf.Operation, user: tf.Operation, update: tf.Operation, operations: Iterable[tf.Operation]
) -> bool:
    """Whether an update runs after a read, but perhaps before the op that uses the read value."""
    before = _ancestors([update], set(operations))
    return read in before and user not in before


def is_read_for_good(read: tf.Operation, operations: Sequence[tf.Operation]) -> bool:
    """Whether no update of the plane runs after a read of it."""
    return not any(
        read in _ancestors([update], set(operations))
        for update in _updates_of_plane(read, operations)
    )


def _ancestors(ops: Iterable[tf.Operation], among: set[tf.Operation]) -> set[tf.Operation]:
    """Returns the ops of the set `among` that run before some ops, and these ops themselves."""
    return set(ancestors(among.intersection(ops), lambda op: among.intersection(ops_before(op))))


def unused(operations: Sequence[tf.Operation], without: set[tf.Operation]) -> set[tf.Operation]:
    """Returns those of `operations`, in the order in which they were made, whose results only
    unused ops and ops in `without` consume.

    A read without a consumer may get one later, so it is unused only if it waits for an update:
    then it is the result of that update.
    """
    found: set[tf.Operation] = set()
    for op in reversed(operations):
        takers = {taker for tensor in op.outputs for taker in tensor.consumers()}
        is_unused = takers <= found | without
        if is_unused and (takers or any(_is_update_of_plane(c, op) for c in op.control_inputs)):
            found.add(op)
    return found
