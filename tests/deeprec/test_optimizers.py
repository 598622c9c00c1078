# SPDX-License-Identifier: Apache-2.0
"""Optimizers train embedding variables as ordinary ones of which only the rows of a step move."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.lookups.group_lookup import group_embedding_lookup_sparse
from sok_compat.deeprec.optimizer_rules import train_optimizers as optimizers
from sok_compat.deeprec.variables.embedding_variable import EV_INIT_SLOT_OPS
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.sparse_operation_kit.core.context_scope import OptimizerScope
from tests.support.cases.optimizer_cases import DenseLazyAdam
from tests.support.row_ids import rows_of_python
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
train = tf1.train
NUM_KEYS, DIM, STEPS = 12, 3, 6

L2 = dict(l2_regularization_strength=0.02)  # l1 is that of DeepRec: test_own_optimizers
# {case: (ours, on an ordinary variable, slots beside 'v')}
CASES = {
    "GradientDescent": (
        lambda: optimizers.GradientDescentOptimizer(0.1),
        lambda: train.GradientDescentOptimizer(0.1),
        [],
    ),
    "Adagrad": (
        lambda: optimizers.AdagradOptimizer(0.1, initial_accumulator_value=0.3),
        lambda: train.AdagradOptimizer(0.1, initial_accumulator_value=0.3),
        ["v/Adagrad"],
    ),
    "Momentum": (
        lambda: optimizers.MomentumOptimizer(0.1, 0.9),
        lambda: train.MomentumOptimizer(0.1, 0.9),
        ["v/Momentum"],
    ),
    "Nesterov": (
        lambda: optimizers.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        lambda: train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        ["v/Momentum"],
    ),
    "Ftrl": (
        lambda: optimizers.FtrlOptimizer(0.1, initial_accumulator_value=0.2, **L2),
        lambda: train.FtrlOptimizer(0.1, initial_accumulator_value=0.2, **L2),
        ["v/Ftrl", "v/Ftrl_1"],
    ),
    "Adam": (
        lambda: optimizers.AdamOptimizer(0.01),
        lambda: DenseLazyAdam(0.01),
        ["v/Adam", "v/Adam_1"],
    ),
}


@pytest.mark.parametrize("case, repeated, use_locking", [
    *((case, False, False) for case in CASES),
    ("Adagrad", True, False),
    ("Adam", True, True),
])  # fmt: skip
def test_equals_an_ordinary_variable(graph, case, repeated, use_locking):
    make, make_reference, slots = CASES[case]
    variable = get_embedding_variable("v", DIM)
    rows = tf1.get_variable("rows", [NUM_KEYS, DIM], use_resource=True)
    dense = tf1.get_variable("dense", initializer=[1.0, -2.0, 3.0], use_resource=True)
    dense_reference = tf1.get_variable("dense_reference", initializer=[1.0, -2.0, 3.0])
    ids = tf1.placeholder(tf.int64, [None, 2])
    bags = [tf.RaggedTensor.from_tensor(part) for part in ([ids, ids + 1] if repeated else [ids])]
    ours = group_embedding_lookup_sparse([variable] * len(bags), bags, ["mean"] * len(bags))
    theirs = [tf.reduce_mean(tf.gather(rows, part.to_tensor()), 1) for part in bags]
    loss, reference = (
        tf.add_n([tf.reduce_sum((output * vector - 0.5) ** 2) for output in outputs])
        for outputs, vector in ((ours, dense), (theirs, dense_reference))
    )
    optimizer = make()
    optimizer._use_locking = use_locking
    global_step = train.get_or_create_global_step()
    step = optimizer.minimize(loss, global_step, var_list=[variable, dense])
    expected = make_reference()
    pairs = list(zip(tf.gradients(reference, [rows, dense_reference]), [rows, dense_reference]))
    if case == "Adam":
        expected_step = tf.group(
            expected.apply_gradients(pairs[:1]),
            train.AdamOptimizer(0.01).apply_gradients(pairs[1:]),
        )
    else:
        expected_step = expected.apply_gradients(pairs)
    everything = tf.nn.embedding_lookup(variable, tf.range(NUM_KEYS))
    copy = rows.assign(everything)
    assert [slot.op.name for slot in variable.slots] == slots
    assert len(tf1.get_collection(EV_INIT_SLOT_OPS)) == len(slots)
    rng = np.random.default_rng(1)
    with initialized_session() as session:
        session.run(copy)
        for number in range(STEPS):
            fed = {ids: rng.integers(0, 4 + number, [5, 2])}
            found, wanted = session.run([loss, reference], fed)
            np.testing.assert_allclose(found, wanted, rtol=1e-4)
            session.run([step, expected_step], fed)
        np.testing.assert_allclose(*session.run([everything, rows]), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(*session.run([dense, dense_reference]), rtol=1e-4, atol=1e-5)
        assert session.run(global_step) == STEPS
        assert 0 < session.run(variable.num_keys()) <= NUM_KEYS


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("shape", [[40, 5], [40], [3, 1100]])
def test_adam_moves_all_rows_of_an_ordinary_variable(graph, shape, use_resource):
    """As in TensorFlow, by one op: rows of the gradient, their neighbours, and repeated ids."""
    gradient = tf1.placeholder(tf.float32, [None, *shape[1:]])
    ids = tf1.placeholder(tf.int64, [None])
    initial = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    states, steps = [], []
    for kind in (optimizers.AdamOptimizer, train.AdamOptimizer):
        name = f"of_{kind.__module__.split('.')[0]}"
        variable = tf1.get_variable(name, initializer=initial, use_resource=use_resource)
        optimizer = kind(0.01)
        slices = tf.IndexedSlices(gradient, ids, variable.shape)
        steps.append(optimizer.apply_gradients([(slices, variable)]))
        states.append([variable, *(optimizer.get_slot(variable, name) for name in ("m", "v"))])
    assert [op.type for op in graph.get_operations()].count("Sqrt") == 3  # two step sizes
    rng = np.random.default_rng(2)
    with initialized_session() as session:
        for num_ids in (4, 1, 0, 7):
            fed = {
                ids: rng.integers(0, 3, num_ids),
                gradient: rng.normal(size=[num_ids, *shape[1:]]),
            }
            session.run(steps, fed)
            for found, wanted in zip(*session.run(states)):
                np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=3e-7)


legacy = tf.keras.optimizers.legacy
# {case: (a stock optimizer, slots beside 'v')}
STOCK_CASES = {
    **{case: CASES[case][1:] for case in ("GradientDescent", "Adagrad", "Momentum", "Ftrl")},
    "RMSProp": (lambda: train.RMSPropOptimizer(0.01), ["v/RMSProp", "v/RMSProp_1"]),
    "Adagrad of Keras": (lambda: legacy.Adagrad(0.1), ["Adagrad/v/accumulator"]),
}


@pytest.mark.parametrize("scope", [None, OptimizerScope])
@pytest.mark.parametrize("case", STOCK_CASES)
def test_stock_optimizers_train_embedding_variables(graph, case, scope, tmp_path):
    make, slots = STOCK_CASES[case]
    variable = get_embedding_variable("v", DIM)
    rows = tf1.get_variable("rows", [NUM_KEYS, DIM], use_resource=True)
    ids = tf1.placeholder(tf.int64, [None])
    steps = []
    for trained in (variable, rows):
        loss = tf.reduce_sum((tf.nn.embedding_lookup(trained, ids) - 0.5) ** 2)
        with scope([variable]) if scope else contextlib.nullcontext():
            pairs = zip(tf.gradients(loss, [trained]), [trained])
            steps.append(make().apply_gradients(pairs))
    everything = tf.nn.embedding_lookup(variable, tf.range(NUM_KEYS))
    copy = rows.assign(everything)
    assert [slot.op.name for slot in variable.slots] == slots
    saver = train.Saver([variable])
    with initialized_session() as session:
        session.run(copy)
        for keys in ([1, 4, 1], [4, 9], [2]):
            session.run(steps, {ids: keys})
        trained = session.run([everything, *variable.slots])
        np.testing.assert_allclose(trained[0], session.run(rows), rtol=1e-4, atol=1e-5)
        path = saver.save(session, str(tmp_path / "model"))
    with initialized_session() as session:
        saver.restore(session, path)
        restored = session.run([everything, *variable.slots])
        np.testing.assert_array_equal(restored[0], trained[0])
        for found, wanted in zip(restored[1:], trained[1:]):  # rows may be in another order
            np.testing.assert_array_equal(np.sort(found, axis=0), np.sort(wanted, axis=0))


def test_a_stock_optimizer_that_moves_all_rows_raises(graph):
    variable = get_embedding_variable("v", DIM)
    loss = tf.reduce_sum(tf.nn.embedding_lookup(variable, [1]))
    with pytest.raises(NotImplementedError, match="an optimizer of sok_compat.deeprec.train"):
        train.AdamOptimizer(0.01).minimize(loss)


def test_slots_of_an_optimizer(graph):
    variable = get_embedding_variable("v", DIM)
    optimizer = optimizers.AdamOptimizer(0.01)
    optimizer.minimize(tf.reduce_sum(tf.nn.embedding_lookup(variable, [1])))
    assert optimizer.get_slot_names() == ["m", "v"]
    assert optimizer.get_slot(variable, "m") is variable.slots[0]
    assert set(variable.slots) <= set(optimizer.variables())
    assert isinstance(optimizer, train.AdamOptimizer)


def test_a_variable_of_parts_is_trained_by_its_name(graph):
    variable = get_embedding_variable("v", DIM, partitioner=tf1.fixed_size_partitioner(2))
    loss = tf.reduce_sum(variable.sparse_read([1, 2]))
    for var_list in ([variable], variable):
        pairs = optimizers.AdagradOptimizer(0.1).compute_gradients(loss, var_list)
        assert [of for _, of in pairs] == list(variable)
    assert optimizers.AdagradOptimizer(0.1).minimize(loss, var_list=[variable])


def test_checkpoints_of_one_process(tmp_path):
    path = str(tmp_path / "model")

    def build():
        variable = get_embedding_variable("v", DIM)
        rows = tf.nn.embedding_lookup(variable, [1, 5])
        step = optimizers.AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows**2))
        return variable, rows, step, train.Saver()

    with tf.Graph().as_default():
        _, rows, step, saver = build()
        with initialized_session() as session:
            session.run(step)
            saved = session.run(rows)
            saver.save(session, path)
    with tf.Graph().as_default(), tf1.Session() as session:
        variable, rows, step, saver = build()
        saver.restore(session, path)
        np.testing.assert_array_equal(session.run(rows), saved)
        assert session.run(variable.num_keys()) == 2
        assert (session.run(variable.slots[0])[:2] > 0.1).all()


def test_what_trains_no_embedding_variable(graph):
    variable = get_embedding_variable("v", DIM)
    loss = tf.reduce_sum(tf.nn.embedding_lookup(variable, [1]))
    with pytest.raises(NotImplementedError, match="RMSPropOptimizer does not train embedding"):
        optimizers.RMSPropOptimizer(0.1).minimize(loss)
    with pytest.raises(NotImplementedError, match="learning_rate_power=-0.5 only, got -0.7"):
        optimizers.FtrlOptimizer(0.1, learning_rate_power=-0.7).minimize(loss)
    with pytest.raises(NotImplementedError, match="got a dense one"):
        optimizers.AdagradOptimizer(0.1).apply_gradients([(tf.ones([1, DIM]), variable)])


def _slices(variable, *row_ids):
    return tf.IndexedSlices(tf.ones([len(row_ids), variable.dim]), rows_of_python(row_ids))


def _updates(graph):
    """How many tables each op updates."""
    return [op.get_attr("N") for op in graph.get_operations() if op.type == "SokApplyRule"]


@pytest.mark.parametrize("case", CASES)
def test_variables_of_one_lookup_are_updated_by_one_op(graph, case):
    variables = [get_embedding_variable(f"v{i}", dim) for i, dim in enumerate((2, 3, 3))]
    bags = tf.RaggedTensor.from_row_splits(tf.constant([5], tf.int64), [0, 1])
    first = group_embedding_lookup_sparse(variables[:2], [bags] * 2, ["sum"] * 2)
    (second,) = group_embedding_lookup_sparse(variables[2:], [bags], ["sum"])
    loss = tf.add_n([tf.reduce_sum(output) for output in (*first, second)])
    make, _, _ = CASES[case]
    make().minimize(loss)
    assert sorted(_updates(graph)) == [1, 2]


def test_what_a_refused_call_has_begun_is_forgotten(graph):
    variables = [get_embedding_variable(f"v{i}", DIM) for i in range(2)]
    optimizer = optimizers.AdagradOptimizer(0.1)
    with pytest.raises(NotImplementedError, match="got a dense one"):
        optimizer.apply_gradients(
            [(_slices(variables[0], 0), variables[0]), (tf.ones([DIM]), variables[1])]
        )
    optimizer.apply_gradients([(_slices(variables[1], 0), variables[1])])
    assert _updates(graph) == [1]
