# SPDX-License-Identifier: Apache-2.0
"""Updates of whole planes in OptimizerScope; the numbers of stock optimizers and their memory are
compared in test_stock_optimizers.py and test_optimizer_scope.py."""

import itertools

import pytest
import tensorflow as tf

from sok_compat.tables.plane_variable import PLANE_READS
from tests.support.assertions import assert_close, assert_rows_equal
from tests.support.cases.layer_cases import LayerCase
from tests.support.cases.optimizer_cases import OptimizerCase
from tests.support.row_ids import rows_of_python
from tests.support.side_by_side import VARIED_STEPS, train_both

LAYERS = [LayerCase("sum", True, "int64", 3), LayerCase("static", False, "int64", 4)]


class SlotOptimizer(tf.compat.v1.train.Optimizer):
    """An optimizer with one slot, m; `update(rows, m, gradient, indices)` is the sparse update."""

    def __init__(self, update):
        super().__init__(False, "SlotOptimizer")
        self._update = update

    def _create_slots(self, var_list):
        for variable in var_list:
            self._zeros_slot(variable, "m", self._name)

    def _resource_apply_sparse(self, grad, handle, indices):
        return self._update(handle, self.get_slot(handle, "m"), grad, indices)


def scatter_add(variable, indices, values):
    return tf.raw_ops.ResourceScatterAdd(resource=variable.handle, indices=indices, updates=values)


def read_between_updates(rows, m, gradient, indices):
    """Moves rows by what m gains, so that m before the update must not be read after it."""
    before = tf.raw_ops.ReadVariableOp(resource=m.handle, dtype=tf.float32)
    with tf.control_dependencies([before]), tf.control_dependencies([m.assign(0.5 * m)]):
        added = scatter_add(m, indices, gradient)
    with tf.control_dependencies([added]):
        after = m.value()
    return rows.assign_sub(0.1 * (after - before))


def read_before_the_only_update(rows, m, gradient, indices):
    """As above, where nothing that comes later waits for what uses the read."""
    before = tf.raw_ops.ReadVariableOp(resource=m.handle, dtype=tf.float32)
    with tf.control_dependencies([before]):
        added = scatter_add(m, indices, gradient)
    with tf.control_dependencies([gradient]):  # so that the lookup has read the rows
        return tf.group(rows.assign_sub(0.1 * before), added)


def gather_before_an_update(rows, m, gradient, indices):
    """Moves rows by what a slot held for them before the step."""
    before = tf.raw_ops.ReadVariableOp(resource=m.handle, dtype=tf.float32)
    with tf.control_dependencies([before]), tf.control_dependencies([m.assign(0.5 * m)]):
        added = scatter_add(m, indices, gradient)
    with tf.control_dependencies([added]):
        return scatter_add(
            rows, indices, -0.1 * tf.raw_ops.GatherV2(params=before, indices=indices, axis=0)
        )


def scale_all_rows(rows, m, gradient, indices):
    """Lets rows themselves decay, with a rate that is fed without a shape."""
    with tf.control_dependencies([scatter_add(m, indices, gradient)]):
        moved = rows.assign_sub(tf.abs(m) * tf.compat.v1.placeholder_with_default(0.1, None))
    with tf.control_dependencies([moved]):
        return tf.group(m.assign(m * 0.5), m.value())


def with_a_whole_tensor(rows, m, gradient, indices):
    """Something else of the plane's shape takes part."""
    dense = tf.math.unsorted_segment_sum(gradient, indices, rows.shape[0])
    with tf.control_dependencies([m.assign(0.5 * m + dense)]):
        return rows.assign_sub(0.1 * m.value())


def one_read_for_two_updates(rows, m, gradient, indices):
    """Moves rows by what m becomes, in no order with the update of m itself."""
    with tf.control_dependencies([scatter_add(m, indices, gradient)]):
        halved = 0.5 * m.value()
    with tf.control_dependencies([gradient]):
        moved = rows.assign_sub(0.1 * halved, read_value=False)
    return tf.group(m.assign(halved, read_value=False), moved)


def with_a_fed_vector(rows, m, gradient, indices):
    """A placeholder that is known not to be a scalar takes part."""
    rates = tf.compat.v1.placeholder_with_default(tf.fill([rows.shape[0], 1], 0.1), [None, 1])
    with tf.control_dependencies([scatter_add(m, indices, gradient)]):
        return rows.assign_sub(rates * m)


UPDATES = (
    read_between_updates,
    read_before_the_only_update,
    gather_before_an_update,
    scale_all_rows,
    with_a_whole_tensor,
    one_read_for_two_updates,
    with_a_fed_vector,
)


@pytest.mark.parametrize("update", UPDATES, ids=lambda update: update.__name__)
def test_optimizers_of_users(update):
    """What is rewritten, and what must be left alone, gives the numbers of ordinary variables."""
    optimizer = OptimizerCase("mine", lambda: SlotOptimizer(update), needs_scope=True)
    steps = itertools.islice(itertools.cycle(VARIED_STEPS), 20)
    tables, plain = train_both(LAYERS, optimizer, steps)
    assert_close(tables.losses, plain.losses)
    for layer in range(len(LAYERS)):
        assert_rows_equal(tables, plain, layer)


def run_before(op):
    """The op and all that runs before it."""
    found, to_visit = set(), [op]
    while to_visit:
        op = to_visit.pop()
        if op not in found:
            found.add(op)
            to_visit += [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
    return found


REWRITTEN = {
    "read_between_updates": {"ResourceScatterUpdate", "AssignSubVariableOp"},
    "read_before_the_only_update": {"AssignSubVariableOp"},
    "gather_before_an_update": {"ResourceScatterUpdate"},
    "scale_all_rows": {"ResourceScatterUpdate", "ResourceScatterSub"},
    "with_a_whole_tensor": {"AssignVariableOp", "ResourceScatterSub"},
    "one_read_for_two_updates": {"ResourceScatterUpdate", "AssignSubVariableOp"},
    "with_a_fed_vector": {"AssignSubVariableOp"},
}


@pytest.mark.parametrize("update", UPDATES, ids=lambda update: update.__name__)
def test_updates_that_run(sok, update):
    """The ops behind the training op that update planes as a whole or by row."""
    layer = LAYERS[0].make_layer()
    table = layer.embedding_variable
    with sok.OptimizerScope([table]):
        gradient = tf.IndexedSlices(tf.ones([1, 3]), rows_of_python([0]))
        step = SlotOptimizer(update).apply_gradients([(gradient, table)])
    ran = run_before(step)
    updates = {op.type for op in ran if op.type.startswith(("Assign", "ResourceScatter"))}
    assert updates - {"ResourceScatterAdd"} == REWRITTEN[update.__name__]


def test_a_read_that_two_updates_share_comes_first(sok):
    table = LAYERS[0].make_layer().embedding_variable
    with sok.OptimizerScope([table]):
        gradient = tf.IndexedSlices(tf.ones([1, 3]), rows_of_python([0]))
        step = SlotOptimizer(one_read_for_two_updates).apply_gradients([(gradient, table)])
    (of_rows,) = (op for op in run_before(step) if op.type == "AssignSubVariableOp")
    (of_m,) = (op for op in run_before(step) if op.type == "ResourceScatterUpdate")
    reads = {op for op in run_before(of_rows) if op.type in PLANE_READS}
    assert reads and reads <= run_before(of_m)


@pytest.mark.parametrize("optimizer", ["Adagrad", "Adam"])
def test_what_is_read_before_a_step_stays_before_it(sok, optimizer):
    """Also when what was read is taken only after the scope."""
    table = LAYERS[0].make_layer().embedding_variable
    gradient = tf.IndexedSlices(tf.ones([1, 3]), rows_of_python([0]))
    optimizer = getattr(tf.compat.v1.train, f"{optimizer}Optimizer")(0.1)
    with sok.OptimizerScope([table]):
        before = table.value()
        with tf.control_dependencies([before]):
            step = optimizer.apply_gradients([(gradient, table)])
    assert before.op in run_before(step)
