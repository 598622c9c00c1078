# SPDX-License-Identifier: Apache-2.0
"""What ops of a graph do to whole planes of tables: reads, and updates computed from them."""

from sok_compat.tables.gpu_plane import PLANE_READS

PLANE_UPDATES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
_ELEMENTWISE = (
    *("Abs", "Identity", "Neg", "Rsqrt", "Sign", "Sqrt", "Square"),
    *("Add", "AddV2", "Div", "Maximum", "Minimum", "Mul", "Pow", "RealDiv", "Sub"),
    *("SquaredDifference",),
)
_SCALARS_SOMETIMES = ("Placeholder", "PlaceholderWithDefault")  # of unknown shape
_LOOKUPS = ("SokPoolRows", "SokExchangeRows")
_CHANGE_NOTHING = (*PLANE_READS, *_LOOKUPS, "ResourceGather", "VariableShape")


def is_read(op, table_of):
    """Whether an op reads a whole plane. `table_of`: {name of a plane's handle: its table}."""
    return op.type in PLANE_READS and op.inputs[0].name in table_of


class PlaneUpdate:
    """One op that gives a whole plane new values, and the expression behind them."""

    def __init__(self, op, table_of, operations):
        self.op = op
        self.table = table_of[op.inputs[0].name]
        self.inner = []  # ops of the expression, each after its inputs
        self._reads = []
        self._table_of = table_of
        self._operations = operations
        is_function = self._visit(op.inputs[1])
        # What comes between a read that is older than `operations` and them, they do not tell.
        self.is_elementwise = is_function and set() < set(self._reads) <= set(operations)

    def _visit(self, tensor):
        """Whether a tensor is a function, element by element, of planes of the table."""
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

    def waited_for(self):
        """What the ops of the expression and the update wait for, besides each other."""
        waited_for = [c for op in (*self.inner, self.op) for c in op.control_inputs]
        return [op for op in waited_for if op not in self.inner]

    def reads_can_wait(self):
        """Whether each plane could as well be read once all that is waited for has run: not if an
        update comes after the read, which then is of the values before."""
        among = set(self._operations)
        before_update = _ancestors(self.waited_for(), among)
        return not any(
            op in before_update - _ancestors([read], among)
            or _is_overtaken(read, self.op, op, self._operations)
            for read in self._reads
            for op in _updates_of_plane(read, self._operations)
        )


def _updates_of_plane(read, operations):
    return [op for op in operations if _is_update_of_plane(op, read)]


def _is_update_of_plane(op, read):
    return op.type not in _CHANGE_NOTHING and any(x is read.inputs[0] for x in op.inputs)


def _is_overtaken(read, user, update, operations):
    """Whether an update comes after a read, but not after the op that uses what was read."""
    before = _ancestors([update], set(operations))
    return read in before and user not in before


def is_read_for_good(read, operations):
    """Whether no update of the plane comes after a read of it."""
    return not any(
        read in _ancestors([update], set(operations))
        for update in _updates_of_plane(read, operations)
    )


def _ancestors(to_visit, among):
    """The ops of the set `among` that run before some ops, these included."""
    found, to_visit = set(), list(to_visit)
    while to_visit:
        op = to_visit.pop()
        if op in among and op not in found:
            found.add(op)
            to_visit += [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
    return found


def unused(operations, without):
    """Those of `operations` whose results nobody takes, but others of them and the set `without`.

    A read that has no takers yet may be somebody's who will take it, and has put it before an
    update; but not what an update returns, which is a read that waits for it.

    Args:
      operations: in the order in which they were made.
      without: ops that will not run.
    """
    found = set()
    for op in reversed(operations):
        takers = {taker for tensor in op.outputs for taker in tensor.consumers()}
        is_unused = takers <= found | without
        if is_unused and (takers or any(_is_update_of_plane(c, op) for c in op.control_inputs)):
            found.add(op)
    return found
