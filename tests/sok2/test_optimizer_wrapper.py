# SPDX-License-Identifier: Apache-2.0
"""OptimizerWrapper and SGD: stock numbers for rows of a step, and other rows stay."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat.deeprec.optimizer_rules.weight_decay_optimizers import AdamWOptimizer
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from tests.support.sessions import initialized_session

newer, legacy, train = keras.optimizers, keras.optimizers.legacy, tf.compat.v1.train
IN_FUNCTIONS = ("legacy Adam with amsgrad", "legacy Adagrad", "newer Adam", "tf.train Adam")
OPTIMIZERS = {
    "legacy SGD": lambda: legacy.SGD(0.1),
    "legacy SGD with momentum": lambda: legacy.SGD(0.1, momentum=0.9, nesterov=True),
    "legacy Adam": lambda: legacy.Adam(0.1),
    "legacy Adam with amsgrad": lambda: legacy.Adam(0.1, amsgrad=True),
    "legacy Nadam": lambda: legacy.Nadam(0.1),
    "legacy RMSprop": lambda: legacy.RMSprop(0.1, centered=True),
    "legacy RMSprop with momentum": lambda: legacy.RMSprop(0.1, momentum=0.9),
    "legacy Adamax": lambda: legacy.Adamax(0.1),
    "legacy Adadelta": lambda: legacy.Adadelta(0.1),
    "legacy Adagrad": lambda: legacy.Adagrad(0.1),
    "legacy Ftrl": lambda: legacy.Ftrl(0.1),
    "newer SGD": lambda: newer.SGD(0.1, momentum=0.9),
    "newer Adam": lambda: newer.Adam(0.1),
    "newer Nadam": lambda: newer.Nadam(0.1),
    "newer RMSprop": lambda: newer.RMSprop(0.1),
    "newer Adamax": lambda: newer.Adamax(0.1),
    "newer Adadelta": lambda: newer.Adadelta(0.1),
    "newer Adagrad": lambda: newer.Adagrad(0.1),
    "newer Ftrl": lambda: newer.Ftrl(0.1),
    "tf.train Adam": lambda: train.AdamOptimizer(0.1),
    "tf.train GradientDescent": lambda: train.GradientDescentOptimizer(0.1),
    "tf.train Momentum": lambda: train.MomentumOptimizer(0.1, 0.9),
    "tf.train Adagrad": lambda: train.AdagradOptimizer(0.1),
    "tf.train Adadelta": lambda: train.AdadeltaOptimizer(0.1),
    "tf.train RMSProp": lambda: train.RMSPropOptimizer(0.1),
    "tf.train Ftrl": lambda: train.FtrlOptimizer(0.1),
    "tf.train ProximalAdagrad": lambda: train.ProximalAdagradOptimizer(0.1),
    "tf.train AdagradDA": lambda: train.AdagradDAOptimizer(0.1, tf.Variable(0, dtype=tf.int64)),
    "LazyAdam": lambda: sok_compat.tf.keras.optimizers.LazyAdamOptimizer(0.1),
    "fused Adam": lambda: sok_compat.tf.keras.optimizers.Adam(0.1),
}
ROWS = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
TOUCHED = [0, 2, 3, 2, 1]  # of the first four rows, in each step


def made(sok, kind):
    if kind == "static":
        return sok.Variable(ROWS)
    variable = sok.DynamicVariable(3)
    if tf.executing_eagerly():
        sok.assign(variable, tf.range(8), ROWS)
    return variable


def rows_of(sok, variable):
    exported = sok.export(variable)
    return (variable.value() if exported is None else exported[1]).numpy()


def loss_of(rows):
    return tf.reduce_sum(tf.reduce_sum(rows, 0) ** 2)


@pytest.mark.parametrize(
    "name, as_function",
    [*((name, False) for name in OPTIMIZERS), *((name, True) for name in IN_FUNCTIONS)],
)
def test_equals_the_optimizer_on_the_rows_of_a_step(sok, name, as_function):
    variables = [made(sok, "dynamic"), made(sok, "static")]
    mixed, expected = tf.Variable(ROWS[:4]), tf.Variable(ROWS[:4])
    wrapper, plain = sok.OptimizerWrapper(OPTIMIZERS[name]()), OPTIMIZERS[name]()

    def step(touched):
        with tf.GradientTape(persistent=True) as tape:
            pooled = sok.lookup_sparse(variables, [touched] * 2, combiners="sum")
            ours = tf.add_n([tf.reduce_sum(each**2) for each in pooled])
            ours += loss_of(tf.gather(mixed, touched.values % 4))
            theirs = loss_of(tf.gather(expected, touched.values % 4))
        trained = [*variables, mixed]
        wrapper.apply_gradients(zip(tape.gradient(ours, trained), trained))
        plain.apply_gradients([(tape.gradient(theirs, expected), expected)])

    run = tf.function(step) if as_function else step
    for _ in range(3):
        run(tf.RaggedTensor.from_row_splits(tf.constant(TOUCHED, tf.int64), [0, len(TOUCHED)]))
    assert not np.allclose(expected, ROWS[:4])
    np.testing.assert_allclose(mixed, expected, rtol=1e-5, atol=1e-6)
    for variable in variables:
        np.testing.assert_allclose(rows_of(sok, variable)[:4], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(rows_of(sok, variable)[4:], ROWS[4:])
    before = [rows_of(sok, variable) for variable in variables]
    step(tf.RaggedTensor.from_row_splits(tf.constant([7], tf.int64), [0, 1]))
    for variable, rows in zip(variables, before):  # the first rows, which have slots, stay
        after = rows_of(sok, variable)
        np.testing.assert_array_equal(after[:7], rows[:7])
        assert not np.allclose(after[7], rows[7])


@pytest.mark.parametrize("as_function", [False, True])
@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_row_wise_adagrad(sok, kind, as_function):
    """Against NumPy; an ordinary variable has Adagrad's numbers."""
    variable, mixed, plain = made(sok, kind), tf.Variable(ROWS), tf.Variable(ROWS)
    wrapper = sok.OptimizerWrapper(sok_compat.optimizers.RowWiseAdagrad(0.1))
    adagrad = train.AdagradOptimizer(0.1)

    def step():
        with tf.GradientTape(persistent=True) as tape:
            losses = [loss_of(tf.nn.embedding_lookup(each, TOUCHED)) for each in (variable, mixed)]
            losses += [loss_of(tf.gather(plain, TOUCHED))]
        ours = [(tape.gradient(losses[0], variable), variable)]
        wrapper.apply_gradients([*ours, (tape.gradient(losses[1], mixed), mixed)])
        adagrad.apply_gradients([(tape.gradient(losses[2], plain), plain)])

    run = tf.function(step) if as_function else step
    rows, sums = ROWS.astype(np.float64), np.full([8, 1], 0.1)
    for _ in range(3):
        run()
        gradients = np.zeros_like(rows)
        np.add.at(gradients, TOUCHED, 2 * rows[TOUCHED].sum(0))
        sums += np.mean(gradients**2, axis=1, keepdims=True)
        rows -= 0.1 * gradients / np.sqrt(sums)
    np.testing.assert_allclose(rows_of(sok, variable), rows, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(mixed, plain, rtol=1e-6)


@pytest.mark.parametrize("as_function", [False, True])
@pytest.mark.parametrize("name", ["legacy Adam", "newer Adam"])
def test_one_optimizer_with_and_without_the_wrapper(sok, name, as_function):
    """Each counts its own steps, as in SparseOperationKit 2."""
    optimizer, alone = OPTIMIZERS[name](), OPTIMIZERS[name]()
    wrapper, variable = sok.OptimizerWrapper(optimizer), made(sok, "dynamic")
    ordinary, expected = tf.Variable(ROWS), tf.Variable(ROWS)

    def step():
        with tf.GradientTape(persistent=True) as tape:
            losses = [loss_of(tf.nn.embedding_lookup(variable, tf.range(8)))]
            losses += [loss_of(each) for each in (ordinary, expected)]
        wrapper.apply_gradients([(tape.gradient(losses[0], variable), variable)])
        optimizer.apply_gradients([(tape.gradient(losses[1], ordinary), ordinary)])
        alone.apply_gradients([(tape.gradient(losses[2], expected), expected)])

    if name == "newer Adam":  # in a function, it makes the slots of all its variables at once
        optimizer.build([variable, ordinary])
    run = tf.function(step) if as_function else step
    for _ in range(3):
        run()
    np.testing.assert_allclose(ordinary, expected, rtol=1e-6)
    np.testing.assert_allclose(rows_of(sok, variable), expected, rtol=1e-5, atol=1e-6)
    assert wrapper.iterations.numpy() == optimizer.iterations.numpy() == 3


@pytest.mark.parametrize("name", ["legacy Adam", "legacy Adagrad", "newer Adam", "tf.train Adam"])
@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_dense_gradients_move_all_rows(sok, name, kind):
    """As those of lookups together with a penalty on all rows."""
    variable, plain = made(sok, kind), tf.Variable(ROWS)
    wrapper, optimizer = sok.OptimizerWrapper(OPTIMIZERS[name]()), OPTIMIZERS[name]()
    for _ in range(2):
        for one, each in ((wrapper, variable), (optimizer, plain)):
            with tf.GradientTape() as tape:
                loss = loss_of(tf.nn.embedding_lookup(each, [1, 1, 3])) + tf.nn.l2_loss(each)
            gradient = tape.gradient(loss, each)
            assert not isinstance(gradient, tf.IndexedSlices)
            one.apply_gradients([(gradient, each)])
    np.testing.assert_allclose(rows_of(sok, variable), plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name",
    [
        *("legacy Adam", "tf.train Adam", "tf.train Adagrad", "tf.train ProximalAdagrad"),
        *("tf.train AdagradDA", "LazyAdam", "fused Adam"),
    ],
)
def test_in_a_graph(sok, name):
    with tf.Graph().as_default():
        variable, plain = sok.DynamicVariable(3), tf.Variable(ROWS[:4])
        keys = tf.constant(TOUCHED, tf.int64)
        wrapper = sok.OptimizerWrapper(OPTIMIZERS[name]())
        done = []
        for optimizer, each in ((wrapper, variable), (OPTIMIZERS[name](), plain)):
            (gradient,) = tf.gradients(loss_of(tf.nn.embedding_lookup(each, keys)), [each])
            done.append(optimizer.apply_gradients([(gradient, each)]))
        assign, exported = sok.assign(variable, tf.range(8), ROWS), sok.export(variable)
        slots = [each.name for each in variable.slots]
        with initialized_session() as session:
            session.run(assign)
            for _ in range(3):
                session.run(done)
            rows = session.run(exported)[1]
            np.testing.assert_allclose(rows[:4], session.run(plain), rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(rows[4:], ROWS[4:])
    assert slots and all(variable.table_name in slot for slot in slots)


class PullsBack(train.AdagradOptimizer):
    """Somebody's optimizer, which reads the rows that it moves."""

    def _resource_apply_sparse(self, grad, handle, indices):
        with tf.control_dependencies([grad]):
            rows = tf.gather(handle, indices)
        return super()._resource_apply_sparse(grad + 0.1 * rows, handle, indices)


@pytest.mark.parametrize("name", ["tf.train Ftrl", "legacy Adagrad", "PullsBack", "AdamW"])
@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_in_a_script_of_tensorflow_1(sok, name, kind):
    """Where shapes have Dimensions."""
    others = {
        "PullsBack": lambda: PullsBack(0.1),
        "AdamW": lambda: AdamWOptimizer(0.1, 0.1),
    }
    make = {**OPTIMIZERS, **others}[name]
    tf.compat.v1.disable_v2_tensorshape()
    try:
        with tf.Graph().as_default():
            variable = made(sok, kind)
            plain = tf.compat.v1.get_variable("plain", initializer=ROWS, use_resource=True)
            assign = sok.assign(variable, [5, 3, 1, 7, 6, 4, 2, 0], ROWS[[5, 3, 1, 7, 6, 4, 2, 0]])
            done = []
            for optimizer, each in ((sok.OptimizerWrapper(make()), variable), (make(), plain)):
                rows = tf.nn.embedding_lookup(each, tf.constant([5, 1, 5, 2]))
                (gradient,) = tf.gradients(loss_of(rows), [each])
                done.append(optimizer.apply_gradients([(gradient, each)]))
            found = tf.nn.embedding_lookup(variable, tf.range(8))
            with initialized_session() as session:
                session.run(assign)
                for _ in range(2):
                    session.run(done)
                np.testing.assert_allclose(*session.run([found, plain]), rtol=1e-5, atol=1e-6)
    finally:
        tf.compat.v1.enable_v2_tensorshape()


def test_an_optimizer_that_reads_rows_of_deeprecs_variable(sok):
    with tf.Graph().as_default():
        ones = tf.compat.v1.ones_initializer()
        variable = get_embedding_variable("ours", 3, initializer=ones)
        plain = tf.compat.v1.get_variable("plain", [8, 3], initializer=ones, use_resource=True)
        done = []
        for optimizer, each in ((sok.OptimizerWrapper(PullsBack(0.1)), variable),
                                (PullsBack(0.1), plain)):  # fmt: skip
            loss = loss_of(tf.nn.embedding_lookup(each, tf.constant([5, 1, 5, 2])))
            (gradient,) = tf.gradients(loss, [each])
            done.append(optimizer.apply_gradients([(gradient, each)]))
        found = tf.nn.embedding_lookup(variable, tf.range(8))
        with initialized_session() as session:
            for _ in range(2):
                session.run(done)
            np.testing.assert_allclose(*session.run([found, plain]), rtol=1e-5, atol=1e-6)


def test_newer_keras_in_a_graph_raises(sok):
    with tf.Graph().as_default():
        variable = sok.DynamicVariable(3)
        with pytest.raises(NotImplementedError, match="do not work in graph mode: use the one"):
            slices = tf.IndexedSlices(tf.ones([1, 3]), [0], [1, 3])
            sok.OptimizerWrapper(newer.Adam()).apply_gradients([(slices, variable)])


def test_averages_of_all_rows_raise(sok):
    variable = made(sok, "dynamic")
    wrapper = sok.OptimizerWrapper(newer.Adam(use_ema=True))
    with tf.GradientTape() as tape:
        loss = loss_of(tf.nn.embedding_lookup(variable, [1]))
    with pytest.raises(NotImplementedError, match="use_ema averages all rows: make the Adam"):
        wrapper.apply_gradients([(tape.gradient(loss, variable), variable)])
    np.testing.assert_array_equal(rows_of(sok, variable), ROWS)


def test_wrapper_offers_what_the_optimizer_has(sok):
    variable = made(sok, "dynamic")
    wrapper = sok.OptimizerWrapper(legacy.Adam(0.1))
    assert wrapper.apply_gradients([(None, variable)]) is None
    with tf.GradientTape() as tape:
        loss = loss_of(tf.nn.embedding_lookup(variable, [1]))
    wrapper.apply_gradients([(tape.gradient(loss, variable), variable)], name="step")
    assert wrapper.iterations.numpy() == 1
    assert sorted(wrapper.get_slot_names()) == ["m", "v"]
    assert wrapper.get_slot(variable, "m").table_handle is variable.table_handle
    wrapper.lr = 0.5
    assert wrapper.lr.numpy() == wrapper.optimizer.learning_rate.numpy() == 0.5
    with pytest.raises(ValueError, match="global_step is for optimizers of tf.compat.v1.train"):
        wrapper.apply_gradients([(tape, variable)], global_step=tf.Variable(0))
    for wrong in (0.1, sok.SGD(0.1)):
        with pytest.raises(TypeError, match="needs an optimizer of tf.compat.v1.train or Keras 2"):
            sok.OptimizerWrapper(wrong)


@pytest.mark.parametrize("kind", ["dynamic", "static", "plain"])
def test_sgd(sok, kind):
    variable = tf.Variable(ROWS) if kind == "plain" else made(sok, kind)
    optimizer = sok.SGD(0.1)
    optimizer.lr.assign(0.2)
    step = tf.Variable(0)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.nn.embedding_lookup(variable, [5, 5, 1]) * [[1.0, 2, 3]])
    assert optimizer.apply_gradients([(tape.gradient(loss, variable), variable)], step) is None
    expected = ROWS.copy()
    expected[5] -= [0.4, 0.8, 1.2]
    expected[1] -= [0.2, 0.4, 0.6]
    rows = variable.numpy() if kind == "plain" else rows_of(sok, variable)
    np.testing.assert_allclose(rows, expected, rtol=1e-5, atol=1e-6)
    assert step.numpy() == 1


@pytest.mark.parametrize("name", ["tf.train GradientDescent", "tf.train Adam", "legacy Adamax"])
def test_rows_of_two_bytes_in_a_graph(sok, name):
    found = {}
    for dtype in (tf.float32, tf.bfloat16):
        with tf.Graph().as_default():
            variable, wrapper = (
                sok.DynamicVariable(3, "ones", dtype=dtype),
                sok.OptimizerWrapper(OPTIMIZERS[name]()),
            )
            loss = loss_of(tf.nn.embedding_lookup(variable, tf.constant(TOUCHED)))
            pairs = [(tf.gradients(loss, [variable])[0], variable)]
            done = wrapper.apply_gradients(pairs)
            with initialized_session() as session:
                session.run(done)
                found[dtype] = session.run(variable.export())[1]
    np.testing.assert_allclose(found[tf.bfloat16], found[tf.float32], rtol=0.02)


def test_checkpoints_have_rows_and_slots(sok, tmp_path):
    variable, static = made(sok, "dynamic"), made(sok, "static")
    wrapper = sok.OptimizerWrapper(legacy.Adam(0.1))

    def train(keys):
        with tf.GradientTape() as tape:
            rows = [tf.nn.embedding_lookup(each, keys) for each in (variable, static)]
            loss = tf.add_n([loss_of(each) for each in rows])
        trained = [variable, static]
        wrapper.apply_gradients(zip(tape.gradient(loss, trained), trained))

    train([1, 2])
    objects = tf.train.Checkpoint(dynamic=variable, static=static, optimizer=wrapper)
    path = objects.write(str(tmp_path / "saved"))
    train([1, 5])
    after = [rows_of(sok, each) for each in (variable, static)]
    train([1, 9 % 8])
    objects.read(path).assert_consumed()
    train([1, 5])
    for each, rows in zip((variable, static), after):
        np.testing.assert_allclose(rows_of(sok, each), rows, rtol=1e-6)
