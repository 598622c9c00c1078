# SPDX-License-Identifier: Apache-2.0
"""`OptimizerScope`: slots of stock optimizers beside a table's rows."""

import pytest
import tensorflow as tf

from tests.support.layer_cases import LayerCase
from tests.support.optimizer_cases import ALL_OPTIMIZERS
from tests.support.sessions import initialized_session
from tests.support.subprocess_python import run_python

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


@pytest.mark.parametrize("optimizer", ALL_OPTIMIZERS, ids=str)
def test_slots_are_global_variables_and_not_trainable(sok, optimizer):
    layer = CASE.make_layer(capacity=100)
    table = layer.embedding_variable
    slots = [
        v for v in new_variables(lambda: training_of(optimizer, table, layer)) if v.shape.rank == 2
    ]
    assert len(slots) == {"tf1.GradientDescent": 0, "keras.SGD": 0, "tf1.Adam": 2,
                          "keras.Adam": 2, "tf1.RMSProp": 2}.get(str(optimizer), 1)  # fmt: skip
    for slot in slots:
        assert slot.shape[0] == 100
        assert f"/{table.m_var_name}/" in f"/{slot.name}"
        assert not any(slot is v for v in tf.compat.v1.trainable_variables())


@pytest.mark.parametrize("optimizer", ALL_OPTIMIZERS, ids=str)
def test_tables_keep_their_slots_apart(sok, optimizer):
    """Two tables, one inside a name scope that makes its name end in the other's."""
    first = CASE.make_layer()
    with tf.name_scope("scope"):
        second = CASE.make_layer()
    tables = [layer.embedding_variable for layer in (first, second)]
    keys = tf.compat.v1.placeholder(tf.int64, [None])
    loss = tf.reduce_sum(first(keys)) + 3.0 * tf.reduce_sum(second(keys[:1]))
    step = optimizer.train_tables(tf.gradients(loss, tables), tables)
    with initialized_session() as session:
        first_rows = session.run([table.export() for table in tables])
        for _ in range(2):
            session.run(step, {keys: [4, 5]})
        (keys_1, rows_1), (keys_2, rows_2) = session.run([table.export() for table in tables])
        assert (keys_1.tolist(), keys_2.tolist()) == ([4, 5], [4])
        assert all(len(keys) == 0 for keys, _ in first_rows)


# Adam that is not lazy passes over all rows: of an ordinary variable those declared, of a table
# those up to the highest in use, which without a hash table may be the last.
FOLLOW_USE = [str(o) for o in ALL_OPTIMIZERS if str(o) not in ("tf1.Adam", "keras.Adam")]
FOLLOW_USE_EVERYWHERE = [name for name in FOLLOW_USE if "Adam" not in name or "Lazy" in name]


def test_declared_capacity_takes_no_memory():
    """2e9 rows of 16 floats and their slots, 256 GB and more: a few rows are trained."""
    printed = run_python(
        f"""
        import resource
        import tensorflow as tf
        import sok_compat as sok
        from tests.support.optimizer_cases import ALL_OPTIMIZERS

        def train(optimizer, use_hashtable, capacity=2_000_000_000):
            sok.Init(global_batch_size=4)
            layer = sok.All2AllDenseEmbedding(
                capacity, 16, 1, 1, dynamic_input=True, use_hashtable=use_hashtable)
            output = layer(tf.constant([0, 5, capacity - 1, 5], tf.int64))
            table = layer.embedding_variable
            step = optimizer.train_tables(tf.gradients(tf.reduce_sum(output ** 2), [table]), [table])
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                before = session.run(output)
                for _ in range(3):
                    session.run(step)
                assert (session.run(output) != before).all()

        for optimizer in ALL_OPTIMIZERS:
            for use_hashtable in (True, False):
                if str(optimizer) in ({FOLLOW_USE} if use_hashtable else {FOLLOW_USE_EVERYWHERE}):
                    with tf.Graph().as_default():
                        train(optimizer, use_hashtable)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
        """
    )
    assert 100 < int(printed) < 1500  # MiB, of which TensorFlow itself takes several hundred
