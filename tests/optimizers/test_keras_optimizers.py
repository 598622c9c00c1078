# SPDX-License-Identifier: Apache-2.0
"""The optimizers of tf.keras.optimizers, which work in eager mode and in functions."""

import contextlib
import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import has_keras_2
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.tables import Table
from tests.support.assertions import assert_close
from tests.support.cases.optimizer_cases import KERAS_OPTIMIZERS, STOCK_OPTIMIZERS
from tests.support.lookups import lookup
from tests.support.processes.subprocess_python import run_python
from tests.support.sessions import initialized_session

of_keras_2 = pytest.mark.skipif(not has_keras_2, reason="Keras 3 has another way for it")
NUM_STEPS = {"eager-in-scope": 15, "function": 50}  # in eager mode each takes its time
NUM_KEYS = 12
DIM = 3
EVERY_KEY = np.arange(NUM_KEYS)


def make_layers():
    """A table with a hash index and one without."""
    sok.Init(global_batch_size=4, seed=3)
    return [
        sok.All2AllDenseEmbedding(
            NUM_KEYS, DIM, 1, 1, dynamic_input=True, use_hashtable=use_hashtable
        )
        for use_hashtable in (True, False)
    ]


def lookup_of_distinct(variable):
    """A lookup in an ordinary variable whose gradient names each row once, as that of a table."""

    def lookup(keys):
        distinct, places = tf.unique(keys)
        return tf.gather(tf.gather(variable, distinct), places)

    return lookup


def make_step(lookups, variables, case):
    """A training step (keys, labels) -> loss of one optimizer on tables and a dense variable."""
    weights = tf.Variable(tf.ones([DIM * len(lookups), 1]))
    optimizer = case.make()

    def step(keys, labels):
        with tf.GradientTape() as tape:
            features = tf.concat([lookup(keys) for lookup in lookups], axis=1)
            loss = tf.reduce_mean((features @ weights - labels) ** 2)
        trained = [*variables, weights]
        case.apply(optimizer, tape.gradient(loss, trained), trained)
        return loss

    return step


@pytest.mark.parametrize("mode", NUM_STEPS)
@pytest.mark.parametrize("case", KERAS_OPTIMIZERS, ids=str)
def test_equals_ordinary_variables(case, mode):
    layers = make_layers()
    tables = [layer.embedding_variable for layer in layers]
    plain = [tf.Variable(layer(EVERY_KEY, training=case.needs_all_keys)) for layer in layers]
    on_tables = make_step(
        layers, tables, dataclasses.replace(case, needs_scope=mode == "eager-in-scope")
    )
    on_plain = make_step([lookup_of_distinct(variable) for variable in plain], plain, case)
    if mode == "function":
        on_tables, on_plain = tf.function(on_tables), tf.function(on_plain)
    rng = np.random.default_rng(0)
    before = [variable.numpy() for variable in plain]
    for _ in range(NUM_STEPS[mode]):
        keys = tf.constant(np.minimum(*rng.integers(0, NUM_KEYS, [2, 5])))
        labels = tf.constant(rng.normal(size=[5, 1]), tf.float32)
        assert_close(on_tables(keys, labels), on_plain(keys, labels))
    for layer, variable, start in zip(layers, plain, before):
        assert_close(layer(EVERY_KEY, training=False), variable)
        assert np.abs(variable.numpy() - start).max() > 1e-3


@pytest.mark.parametrize("as_function", [False, True])
@pytest.mark.parametrize("optimizer", ["Adam", "Adagrad", "RMSprop"])
def test_keys_of_two_lookups_of_a_step(optimizer, as_function):
    """The gradient has two slices of a row, whose sum is squared, not each by itself."""
    make, rows = getattr(keras.optimizers, optimizer), []
    table, plain = Table(NUM_KEYS, DIM, "ones"), tf.Variable(tf.ones([NUM_KEYS, DIM]))
    for variable, look_up in (
        (table, functools.partial(lookup, table, insert=True)),
        (plain, lambda keys: tf.one_hot(keys, NUM_KEYS) @ plain),
    ):
        look_up(tf.constant(EVERY_KEY))

        def step(variable, look_up, by):
            with tf.GradientTape() as tape:
                first, second = look_up(tf.constant([1, 2])), look_up(tf.constant([1, 3]))
                loss = tf.reduce_sum(first) + 2 * tf.reduce_sum(second)
            by.apply_gradients([(tape.gradient(loss, variable), variable)])

        train, by = tf.function(step) if as_function else step, make(0.1)
        for _ in range(3):
            train(variable, look_up, by)
        rows.append(look_up(tf.constant(EVERY_KEY)))
    assert_close(*rows)


@pytest.mark.parametrize("shape", [[DIM + 1, DIM], [DIM + 1], [NUM_KEYS, 2]], ids=str)
def test_variables_in_a_scope_of_the_name_of_a_table(shape):
    """Their slots are not the table's, whatever their shapes."""
    table = Table(NUM_KEYS, DIM, "ones", name="user")
    scopes = table.table_name, "other"
    trained, alone = (tf.Variable(tf.ones(shape), name=f"{scope}/kernel") for scope in scopes)
    by, by_itself = keras.optimizers.Adam(0.1), keras.optimizers.Adam(0.1)
    for key in (1, 2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(lookup(table, tf.constant([key]), insert=True) ** 2)
        (gradient,) = tape.gradient(loss, [table])
        by.apply_gradients([(gradient, table), (key * tf.ones(shape), trained)])
        by_itself.apply_gradients([(key * tf.ones(shape), alone)])
        assert_close(trained, alone)


def training_in_a_graph(sok, optimizer, table, in_scope):
    gradient = tf.IndexedSlices(tf.ones([2, DIM]), [0, 1], table.shape)
    with sok.OptimizerScope([table]) if in_scope else contextlib.nullcontext():
        return optimizer.apply_gradients([(gradient, table)])


IN_GRAPHS = [case for case in KERAS_OPTIMIZERS if str(case) in ("keras.Adam", "keras.SGD")]


@pytest.mark.parametrize("in_scope", [True, False], ids=["in scope", "outside"])
@pytest.mark.parametrize("case", IN_GRAPHS, ids=str)
def test_refused_in_a_graph(sok, case, in_scope):
    undeclared = Table(None, DIM, "ones")
    for table in (make_layers()[0].embedding_variable, undeclared, undeclared):  # with other names
        with pytest.raises(NotImplementedError, match="do not work in graph mode"):
            training_in_a_graph(sok, case.make(), table, in_scope)


@pytest.mark.skipif(not has_keras_2, reason="Keras 3 has no graph mode")
def test_a_function_is_no_way_out_for_undeclared_capacities():
    with tf.Graph().as_default(), pytest.raises(NotImplementedError, match="b:0 can.*") as refused:
        keras.optimizers.Adam().build([Table(8, DIM, name="a"), Table(None, DIM, name="b")])
    assert "tf.function" not in str(refused.value)


@of_keras_2
def test_in_a_graph_through_a_function(sok):
    layer = make_layers()[0]
    table = layer.embedding_variable
    output = layer(tf.constant([1, 2], tf.int64))
    gradients = tf.gradients(tf.reduce_sum(output), [table])
    optimizer = keras.optimizers.SGD(0.5)
    step = tf.function(lambda slices: optimizer.apply_gradients([(slices, table)]))(*gradients)
    with initialized_session() as session:
        session.run([v.initializer for v in optimizer.variables])
        before = session.run(output)
        session.run(step)
        np.testing.assert_allclose(session.run(output), before - 0.5, rtol=1e-5)


class Drifting(keras.optimizers.Optimizer):
    """One of one's own, with a slot that starts as `start(variable)`; moves rows by it."""

    def __init__(self, start, **kwargs):
        super().__init__(name="Drifting", **kwargs)
        self._learning_rate = self._build_learning_rate(0.1)
        self.start = start

    def build(self, var_list):
        super().build(var_list)
        if getattr(self, "_built", False):
            return
        self._built = True
        self.drifts = [
            self.add_variable_from_reference(variable, "drift", initial_value=self.start(variable))
            for variable in var_list
        ]

    def update_step(self, gradient, variable):
        drift = self.drifts[self._index_dict[self._var_key(variable)]]
        drift.scatter_sub(gradient)
        variable.assign_add(drift)


@of_keras_2
def test_an_optimizer_of_ones_own():
    layer = make_layers()[1]  # whose row ids are keys
    table = layer.embedding_variable
    plain = tf.Variable(layer(EVERY_KEY))
    optimizer, reference = (Drifting(lambda variable: tf.ones(variable.shape)) for _ in range(2))
    for keys in ([3, 5, 11], [0, 3]):
        gradient = tf.IndexedSlices(tf.ones([len(keys), DIM]), keys, [NUM_KEYS, DIM])
        optimizer.apply_gradients([(gradient, table)])
        reference.apply_gradients([(gradient, plain)])
    assert_close(layer(EVERY_KEY), plain)
    assert type(optimizer.drifts[0]).__name__ == "SlotVariable"
    assert optimizer.drifts[0].shape == [NUM_KEYS, DIM]
    assert sum("drift" in variable.name for variable in optimizer.variables) == 1


@of_keras_2
@pytest.mark.parametrize("start", [
    lambda variable: tf.reshape(tf.range(NUM_KEYS * DIM, dtype=tf.float32), [-1, DIM]),
    lambda variable: tf.cumsum(tf.ones(variable.shape)),
], ids=["of the capacity", "by shape"])  # fmt: skip
def test_slots_that_do_not_start_as_one_number_are_refused(start):
    table = make_layers()[1].embedding_variable
    with pytest.raises(NotImplementedError, match="drift.*start as a constant"):
        Drifting(start).build([table])


def test_declared_capacity_takes_no_memory_in_eager_mode():
    """1e9 rows of 16 floats, 64 GB, and as much for each slot: a few rows are trained, by stock
    optimizers without a scope, and without sok.Init."""
    printed = run_python(
        """
        from tests.support.processes.subprocess_python import peak_mib
        import tensorflow as tf
        from sok_compat.runtime.tf_versions import has_keras_2
        from sok_compat.tables import Table
        from tests.support.cases.optimizer_cases import KERAS_OPTIMIZERS, STOCK_OPTIMIZERS
        from tests.support.lookups import lookup

        def train(optimizer, use_hash_index, as_function, capacity=1_000_000_000):
            table = Table(capacity, 16, "uniform", use_hash_index=use_hash_index, name="table")
            keys = tf.constant([0, 5, capacity - 1, 5], tf.int64)
            before = lookup(table, keys, insert=True)

            def step():
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(lookup(table, keys, insert=True) ** 2)
                optimizer.apply_gradients([(tape.gradient(loss, table), table)])

            step = tf.function(step) if as_function else step
            for _ in range(2):
                step()
            assert (lookup(table, keys, False).numpy() != before.numpy()).any(axis=1).all()

        for case in KERAS_OPTIMIZERS + [c for c in STOCK_OPTIMIZERS if has_keras_2]:
            is_common = str(case) in ("keras.Adam", "legacy.Adam", "tf1.Adam")
            for use_hash_index in (True, False) if is_common else (True,):
                train(case.make(), use_hash_index, as_function=False)
            if is_common or str(case) in ("keras.AdamW", "keras.Adafactor"):
                train(case.make(), True, as_function=True)
            print(case, peak_mib())
        """
    )
    peaks = dict(line.split(" ") for line in printed.splitlines())  # MiB, so far
    assert len(peaks) == len(KERAS_OPTIMIZERS) + (len(STOCK_OPTIMIZERS) if has_keras_2 else 0)
    assert all(100 < int(peak) < 1500 for peak in peaks.values()), peaks


def test_a_script_may_put_legacy_in_the_place_of_optimizers():
    """As SparseOperationKit 2 does, before the package is imported or after."""
    for first in ("", "import sok_compat.tables.slots.keras_optimizers"):
        run_python(f"""
            {first}
            import tensorflow as tf
            from tensorflow.compat.v2 import keras
            if hasattr(keras.optimizers, "legacy") and tf.__version__ < "2.16":
                newer = keras.optimizers.Adam
                keras.optimizers = keras.optimizers.legacy
                import sok_compat as sok
                sok.init()
                variable = sok.DynamicVariable(2, initializer="ones")
                for optimizer in (newer(1.0), keras.optimizers.SGD(1.0)):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_sum(tf.nn.embedding_lookup(variable, [3]))
                    gradients = tape.gradient(loss, [variable])
                    sok.OptimizerWrapper(optimizer).apply_gradients(zip(gradients, [variable]))
                assert abs(sok.export(variable)[1].numpy() + 1.0).max() < 1e-3
        """)
