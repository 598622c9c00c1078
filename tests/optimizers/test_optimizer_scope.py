# SPDX-License-Identifier: Apache-2.0
"""`OptimizerScope`: slots of stock optimizers beside a table's rows."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat.tables import declared_capacity
from tests.support.cases.layer_cases import LayerCase
from tests.support.cases.optimizer_cases import (
    ALL_OPTIMIZERS,
    COMMON_OPTIMIZERS,
    STOCK_OPTIMIZERS,
    OptimizerCase,
    legacy,
)
from tests.support.processes.subprocess_python import run_python
from tests.support.row_ids import rows_of_python
from tests.support.sessions import initialized_session

CASE = LayerCase("dynamic", True, "int64")
train = tf.compat.v1.train


def new_variables(build):
    """What `build` adds to the global variables."""
    before = {id(v) for v in tf.compat.v1.global_variables()}
    build()
    return [v for v in tf.compat.v1.global_variables() if id(v) not in before]


def training_of(optimizer, table, layer):
    output = layer(tf.constant([1, 2], tf.int64))
    return optimizer.train_tables(tf.gradients(tf.reduce_sum(output), [table]), [table])


@pytest.mark.parametrize("variables", [None, "v", {}, 1, iter([])])
def test_wants_a_list_or_tuple(sok, variables):
    with pytest.raises(RuntimeError, match="list or tuple"):
        sok.OptimizerScope(variables)


def test_scope_takes_variables_not_layers(sok):
    layer = LayerCase("dynamic", True, "int64").make_layer(name="a_layer")
    with pytest.raises(TypeError, match="layer a_layer: pass its embedding_variable"):
        sok.OptimizerScope([layer])


@pytest.mark.parametrize("container", [list, tuple])
def test_ignores_other_variables(sok, container):
    layer, plain = CASE.make_layer(), tf.compat.v1.Variable([1.0, 2.0], use_resource=True)
    variables = container([plain, layer.embedding_variable])
    loss = tf.reduce_sum(layer(tf.constant([1], tf.int64))) + tf.reduce_sum(plain)
    with sok.OptimizerScope(variables) as scope:
        assert isinstance(scope, sok.OptimizerScope)
        optimizer = train.AdagradOptimizer(0.5, initial_accumulator_value=1.0)
        step = optimizer.apply_gradients(zip(tf.gradients(loss, list(variables)), variables))
    assert optimizer.get_slot(plain, "accumulator").shape == [2]
    with initialized_session() as session:
        session.run(step)
        assert session.run(plain) == pytest.approx([1 - 0.5 / 2**0.5, 2 - 0.5 / 2**0.5])


def test_exceptions_propagate_and_the_scope_ends(sok):
    layer = CASE.make_layer()
    table = layer.embedding_variable
    with pytest.raises(ZeroDivisionError), sok.OptimizerScope([table]):
        _ = 1 / 0
    name = f"{table.m_var_name}/mine"
    made = tf.compat.v1.get_variable(name, table.shape, initializer=tf.zeros_initializer())
    assert type(made).__name__ != "SlotVariable"


@pytest.mark.parametrize("in_scope", [True, False], ids=["scope", "no-scope"])
@pytest.mark.parametrize("optimizer", ALL_OPTIMIZERS, ids=str)
def test_slots_are_planes_global_and_not_trainable(sok, optimizer, in_scope):
    optimizer = dataclasses.replace(optimizer, needs_scope=in_scope)
    layer = CASE.make_layer(capacity=100)
    table = layer.embedding_variable
    slots = [
        v for v in new_variables(lambda: training_of(optimizer, table, layer)) if v.shape.rank == 2
    ]
    assert [id(v) for v in slots] == [id(v) for v in table.slots]
    assert len(slots) == optimizer.num_slots
    for slot in slots:
        assert slot.shape[0] == 100
        assert f"/{table.m_var_name}/" in f"/{slot.name}"
        assert not any(slot is v for v in tf.compat.v1.trainable_variables())


def ops_behind(op):
    """All ops that run where `op` does."""
    ran, to_visit = set(), [op]
    while to_visit:
        op = to_visit.pop()
        if op not in ran:
            ran.add(op)
            to_visit += [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
    return ran


@pytest.mark.parametrize("optimizer", STOCK_OPTIMIZERS, ids=str)
def test_rows_that_a_step_touches(sok, optimizer):
    layer = CASE.make_layer()
    table = layer.embedding_variable
    step = training_of(optimizer, table, layer)
    ran = ops_behind(step if isinstance(step, tf.Operation) else step.op)
    planes = {variable.handle.name for variable in (table, *table.slots)}
    whole = [
        op
        for op in ran
        if op.type in ("ReadVariableOp", "SokReadRows") or op.type.startswith("Assign")
        if op.inputs[0].name in planes
    ]
    assert not whole
    touches_all_in_use = any(op.type == "SokRowsInUse" for op in ran)
    assert touches_all_in_use == (optimizer.step_rows == "in use")


INITIAL_SLOTS = {
    "tf1.Adagrad": (
        lambda: train.AdagradOptimizer(0.1, initial_accumulator_value=0.75),
        {"accumulator": 0.75},
    ),
    "tf1.AdagradDA": (
        lambda: train.AdagradDAOptimizer(
            0.1,
            train.get_or_create_global_step(),
            initial_gradient_squared_accumulator_value=0.75,
        ),
        {"gradient_accumulator": 0.0, "gradient_squared_accumulator": 0.75},
    ),
    "tf1.Ftrl": (
        lambda: train.FtrlOptimizer(0.1, initial_accumulator_value=0.75),
        {"accum": 0.75, "linear": 0.0},
    ),
    "tf1.RMSProp": (
        lambda: train.RMSPropOptimizer(0.1, centered=True),
        {"rms": 1.0, "mg": 0.0, "momentum": 0.0},
    ),
    "tf1.ProximalAdagrad": (
        lambda: train.ProximalAdagradOptimizer(0.1, initial_accumulator_value=0.75),
        {"accumulator": 0.75},
    ),
    "tf1.Adam": (lambda: train.AdamOptimizer(0.1), {"m": 0.0, "v": 0.0}),
    "legacy.Adagrad": (
        lambda: legacy.Adagrad(0.1, initial_accumulator_value=0.75),
        {"accumulator": 0.75},
    ),
    "legacy.Ftrl": (
        lambda: legacy.Ftrl(0.1, initial_accumulator_value=0.75),
        {"accumulator": 0.75, "linear": 0.0},
    ),
}


@pytest.mark.parametrize("case", INITIAL_SLOTS, ids=str)
@pytest.mark.parametrize("use_hashtable", [True, False], ids=["hash", "direct"])
def test_slots_of_rows_that_come_later_start_afresh(sok, case, use_hashtable):
    make, initial = INITIAL_SLOTS[case]
    case = LayerCase("dynamic", use_hashtable, "int64")
    layer, keys, optimizer = case.make_layer(), case.placeholder(), make()
    table, output = layer.embedding_variable, layer(keys)
    with sok.OptimizerScope([table]):
        step = optimizer.apply_gradients(
            [(tf.gradients(tf.reduce_sum(2 * output), [table])[0], table)]
        )
    assert sorted(optimizer.get_slot_names()) == sorted(initial)
    slots = {name: optimizer.get_slot(table, name) for name in initial}
    early, late = (0, 1) if use_hashtable else (5, 9)  # rows of the keys 5 and 9
    with initialized_session() as session:
        for _ in range(2):
            session.run(step, {keys: [5]})
        session.run(output, {keys: [9]})
        for name, rows in session.run(slots).items():
            np.testing.assert_array_equal(rows[late], np.full(case.dim, initial[name], np.float32))
            assert (rows[early] != initial[name]).all() or name == "momentum"


def train_tables_named(scopes, optimizer):
    """{scope: rows} of tables of one shape, in a graph of their own, trained by one optimizer."""
    with tf.Graph().as_default():
        sok_compat.Init(global_batch_size=1, seed=3)
        layers = {}
        for scope in scopes:
            with tf.name_scope(scope):
                layers[scope] = CASE.make_layer()
        tables = [layer.embedding_variable for layer in layers.values()]
        keys = tf.constant([4, 5, 4], tf.int64)
        loss = tf.add_n([tf.reduce_sum(layers[s](keys) ** 2) * (1 + len(s)) for s in scopes])
        step = optimizer.train_tables(tf.gradients(loss, tables), tables)
        exported = [table.export() for table in tables]
        with initialized_session() as session:
            for _ in range(3):
                session.run(step)
            return {scope: rows for scope, (_, rows) in zip(scopes, session.run(exported))}


@pytest.mark.parametrize("optimizer", COMMON_OPTIMIZERS, ids=str)
def test_tables_keep_their_slots_apart(optimizer):
    """Two tables, of which one's name ends in the other's, train as each alone."""
    together = train_tables_named(["", "scope"], optimizer)
    for scope, rows in together.items():
        np.testing.assert_array_equal(rows, train_tables_named([scope], optimizer)[scope])


@pytest.mark.parametrize("are_both_in_scope", [True, False])
def test_a_name_that_ends_like_another(sok, are_both_in_scope):
    """'tower/x/Adam' is no slot of the table 'x', whichever tables the scope was given."""
    first = CASE.make_layer().embedding_variable
    with tf.name_scope("tower"):
        second = CASE.make_layer().embedding_variable
    assert second.m_var_name == f"tower/{first.m_var_name}"
    gradient = tf.IndexedSlices(tf.ones([1, first.shape[1]]), rows_of_python([0]))
    with sok.OptimizerScope([first, second] if are_both_in_scope else [first]):
        train.AdamOptimizer().apply_gradients([(gradient, first), (gradient, second)])
    names = [f"{first.m_var_name}/Adam", f"{first.m_var_name}/Adam_1"]
    assert [slot.op.name for slot in first.slots] == names
    assert [slot.op.name for slot in second.slots] == [f"tower/{name}" for name in names]
    assert train.Saver([first]).saver_def
    assert train.Saver([second]).saver_def


class UnevenSlots(train.GradientDescentOptimizer):
    """Its slots do not start as one number."""

    def _create_slots(self, var_list):
        for variable in var_list:
            start = tf.random.stateless_uniform(variable.shape, seed=[1, 2])
            self._get_or_make_slot(variable, start, "uneven", self._name)


class AdamOfOnesOwn(train.AdamOptimizer):
    """Reads its whole slots, which only stock optimizers are known to do."""

    def _resource_apply_sparse(self, grad, var, indices):
        return super()._resource_apply_sparse(grad, var, indices)


class LegacyAdamOfOnesOwn(legacy.Adam):
    """The same for Keras."""

    def _resource_apply_sparse(self, grad, var, indices, apply_state=None):
        return super()._resource_apply_sparse(grad, var, indices, apply_state)


@pytest.mark.parametrize(
    "make, in_scope, problem",
    [
        (train.AdagradOptimizer, False, None),
        (train.AdamOptimizer, False, None),
        (lambda rate: legacy.Adam(rate), False, None),
        (lambda rate: legacy.RMSprop(rate), False, None),
        (AdamOfOnesOwn, True, None),
        (AdamOfOnesOwn, False, "Adam:0 is read or updated in all rows.*OptimizerScope"),
        (LegacyAdamOfOnesOwn, False, "m:0 is read or updated in all rows.*OptimizerScope"),
    ],
)
def test_warns_once_of_slots_that_cost_the_capacity(
    sok, monkeypatch, caplog, make, in_scope, problem
):
    monkeypatch.setattr(declared_capacity, "_warned_of", set())
    optimizer = OptimizerCase("", lambda: make(0.1), needs_scope=in_scope)
    for _ in range(2):
        layer = CASE.make_layer(capacity=2_000_000)
        training_of(optimizer, layer.embedding_variable, layer)
    messages = [r.getMessage() for r in caplog.records if r.name == "sok_compat"]
    assert len(messages) == (problem is not None)
    if problem:
        size = f"{2 * 4 * CASE.dim} MB with shape .2000000, {CASE.dim}."
        assert re.search(f"EmbeddingVariable.*{problem}.*{size}", messages[0])


@pytest.mark.parametrize("in_scope", [True, False])
def test_slots_that_do_not_start_as_one_number_are_refused(sok, in_scope):
    layer = CASE.make_layer()
    optimizer = OptimizerCase("", lambda: UnevenSlots(0.1), needs_scope=in_scope)
    with pytest.raises(NotImplementedError, match="GradientDescent of the table.*start as a const"):
        training_of(optimizer, layer.embedding_variable, layer)


@pytest.mark.parametrize(
    "make", [train.AdamOptimizer, lambda: legacy.Adam(), lambda: legacy.RMSprop()]
)
@pytest.mark.parametrize("name", ["Adam", "m", "rms"])
def test_a_table_named_as_slots_are(sok, make, name):
    table = sok_compat.core.EmbeddingVariable([8, 2], 0, name=name)
    with sok.OptimizerScope([table]):
        gradient = tf.IndexedSlices(tf.ones([1, 2]), rows_of_python([0]))
        make().apply_gradients([(gradient, table)])
    assert table.slots


@pytest.mark.thorough
def test_declared_capacity_takes_no_memory():
    """2e9 rows of 16 floats, 128 GB, and as much for each slot: a few rows are trained, in
    the scope and outside of it."""
    printed = run_python(
        """
        from tests.support.processes.subprocess_python import peak_mib
        import dataclasses
        import tensorflow as tf
        import sok_compat as sok
        from tests.support.cases.optimizer_cases import ALL_OPTIMIZERS
        from tests.support.sessions import initialized_session

        def train(optimizer, use_hashtable, capacity=2_000_000_000):
            sok.Init(global_batch_size=4)
            layer = sok.All2AllDenseEmbedding(
                capacity, 16, 1, 1, dynamic_input=True, use_hashtable=use_hashtable)
            output = layer(tf.constant([0, 5, capacity - 1, 5], tf.int64))
            table = layer.embedding_variable
            gradients = tf.gradients(tf.reduce_sum(output ** 2), [table])
            step = optimizer.train_tables(gradients, [table])
            with initialized_session(rewrites=False) as session:
                before = session.run(output)
                for _ in range(3):
                    session.run(step)
                assert (session.run(output) != before).all()

        for optimizer in ALL_OPTIMIZERS:
            for use_hashtable in (True, False):
                with tf.Graph().as_default():
                    train(optimizer, use_hashtable)
            with tf.Graph().as_default():
                train(dataclasses.replace(optimizer, needs_scope=False), True)
            print(optimizer, peak_mib())
        """
    )
    peaks = dict(line.rsplit(" ", 1) for line in printed.splitlines())  # MiB, so far
    assert list(peaks) == [str(optimizer) for optimizer in ALL_OPTIMIZERS]
    so_far = 1000  # of which TensorFlow itself takes several hundred
    for optimizer, peak in peaks.items():
        assert int(peak) < so_far + 50, optimizer
        so_far = max(so_far, int(peak))
