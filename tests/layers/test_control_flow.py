# SPDX-License-Identifier: Apache-2.0
"""Layers inside tf.cond and tf.while_loop, of both kinds of control flow."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support.cases.optimizer_cases import LAZY_ADAM, SOK_ADAM, STOCK_OPTIMIZERS
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
CAPACITY, DIM = 10, 4
MOMENTUM = next(each for each in STOCK_OPTIMIZERS if each.name == "tf1.Momentum")
BATCHES = np.array([[3, 5, 3], [5, 7, 7], [1, 3, 0]])


@pytest.fixture(params=[True, False], ids=["v2", "v1"], autouse=True)
def control_flow(request):
    was_v2 = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if request.param else tf1.disable_control_flow_v2)()
    yield "v2" if request.param else "v1"
    (tf1.enable_control_flow_v2 if was_v2 else tf1.disable_control_flow_v2)()


@pytest.fixture
def lookups(sok):
    """(table, its lookup), (an ordinary variable of the same rows, its lookup)."""
    layer = sok.All2AllDenseEmbedding(
        CAPACITY, DIM, 1, 1, dynamic_input=True, use_hashtable=False, embedding_initializer="ones"
    )
    plain = tf1.get_variable(
        "plain", [CAPACITY, DIM], initializer=tf1.ones_initializer(), use_resource=True
    )
    return (
        (layer.embedding_variable, layer),
        (plain, lambda keys: tf.nn.embedding_lookup(plain, keys)),
    )


def loss_of(rows):
    return tf.reduce_sum(tf.sin(rows * np.arange(1.0, 1.0 + DIM, dtype=np.float32)))


def by_cond(lookup, choice):
    return tf.cond(
        tf.equal(choice, 0),
        lambda: loss_of(lookup(tf.constant(BATCHES[0]))),
        lambda: 2.0 * loss_of(lookup(tf.constant(BATCHES[1]))),
    )


def by_cond_without_a_lookup(lookup, choice):
    return tf.cond(
        tf.equal(choice, 0), lambda: loss_of(lookup(tf.constant(BATCHES[0]))), lambda: 0.0
    )


def by_while(lookup, choice):
    def body(i, total):
        return i + 1, total + tf.cast(i, tf.float32) * loss_of(lookup(tf.constant(BATCHES)[i]))

    return tf.while_loop(lambda i, _: i < 3, body, [choice, 0.0])[1]


LOSSES = [by_cond, by_cond_without_a_lookup, by_while]


@pytest.mark.parametrize("choice", [0, 1])
@pytest.mark.parametrize("make_loss", LOSSES)
def test_values_and_gradients_are_tensorflows(lookups, make_loss, choice):
    branch = tf1.placeholder_with_default(choice, [])
    seen = []
    for variable, lookup in lookups:
        loss = make_loss(lookup, branch)
        (gradient,) = tf.gradients(loss, [variable])
        seen.append((loss, tf.convert_to_tensor(gradient)))
    with initialized_session() as session:
        actual, expected = session.run(seen)
    np.testing.assert_allclose(actual[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(actual[1], expected[1], rtol=1e-5)


@pytest.mark.parametrize("optimizer", [*STOCK_OPTIMIZERS[:2], SOK_ADAM], ids=str)
@pytest.mark.parametrize("make_loss", LOSSES)
def test_training_is_tensorflows(lookups, make_loss, optimizer):
    branch = tf1.placeholder(tf.int32, [])
    (table, layer), (plain, lookup) = lookups
    touch = layer(tf.range(CAPACITY, dtype=tf.int64))
    steps = [
        optimizer.train_tables(tf.gradients(make_loss(layer, branch), [table]), [table]),
        optimizer.train_reference(tf.gradients(make_loss(lookup, branch), [plain]), [plain]),
    ]
    with initialized_session() as session:
        session.run(touch)  # Adam moves all rows in use
        for choice in (0, 1, 1, 0):
            session.run(steps, {branch: choice})
        np.testing.assert_allclose(*session.run([table.value(), plain]), rtol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_gradient_through_a_condition(sok, training):
    """The table's own batch and one in the condition, with keys that it may not insert."""
    layer = sok.All2AllDenseEmbedding(10, 4, 1, 1, dynamic_input=True)
    keys = tf.constant([3, 5, 3], tf.int64)
    known = layer(keys)
    chosen = tf.cond(
        tf.constant(training),
        lambda: layer(keys, training=True),
        lambda: layer(keys, training=False),
    )
    (gradient,) = tf.gradients(tf.reduce_sum(chosen), [layer.embedding_variable])
    with initialized_session() as session:
        session.run(known)
        dense = session.run(tf.convert_to_tensor(gradient))
    np.testing.assert_array_equal(dense[:3, 0], [2, 1, 0])


def test_branch_that_is_not_taken_inserts_nothing(sok):
    layer = sok.All2AllDenseEmbedding(10, 4, 1, 1, dynamic_input=True)
    branch = tf1.placeholder(tf.bool, [])
    chosen = tf.cond(branch, lambda: layer(tf.constant([1, 2], tf.int64)), lambda: tf.zeros([2, 4]))
    size = layer.embedding_variable.num_keys()
    with initialized_session() as session:
        for taken, expected in ((False, 0), (True, 2), (False, 2)):
            session.run(chosen, {branch: taken})
            assert session.run(size) == expected


@pytest.mark.parametrize("in_function", [False, True], ids=["graph", "function"])
@pytest.mark.parametrize("optimizer", [*STOCK_OPTIMIZERS[:2], LAZY_ADAM], ids=str)
def test_branch_without_a_lookup_moves_no_row(sok, optimizer, in_function):
    layer = sok.All2AllDenseEmbedding(1000, DIM, 1, 1, dynamic_input=True)
    table, branch = layer.embedding_variable, tf1.placeholder(tf.int32, [])
    make_loss = tf.function(by_cond_without_a_lookup) if in_function else by_cond_without_a_lookup
    (gradient,) = tf.gradients(make_loss(layer, branch), [table])
    step = optimizer.train_tables([gradient], [table])
    with initialized_session() as session:
        row_ids, _ = session.run([gradient.indices, step], {branch: 0})
        assert sorted(row_ids) == [0, 1]
        before = session.run(table.export())
        row_ids, _ = session.run([gradient.indices, step], {branch: 1})
        assert row_ids.size == 0
        for now, then in zip(session.run(table.export()), before):
            np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("optimizer", [MOMENTUM, LAZY_ADAM], ids=str)
def test_loop_of_tensorflow_1_moves_only_its_rows(sok, control_flow, optimizer, depth):
    """TensorFlow's sum of slices begins with one of row 0, which is the first key's."""
    if control_flow == "v2":
        pytest.skip("dense gradients, as of ordinary variables")
    layer = sok.All2AllDenseEmbedding(1000, DIM, 1, 1, dynamic_input=True)
    table = layer.embedding_variable
    other, first = layer(tf.constant([9], tf.int64)), layer(tf.constant([3, 5], tf.int64))

    def nested(levels, total):
        if levels == 0:
            return total + loss_of(layer(tf.constant([3, 5, 3], tf.int64)))
        return tf.while_loop(
            lambda i, _: i < 2, lambda i, each: (i + 1, nested(levels - 1, each)), [0, total]
        )[1]

    made = optimizer.make()
    steps = [
        optimizer.apply(made, tf.gradients(loss, [table]), [table])
        for loss in (loss_of(other), nested(depth, 0.0))
    ]
    with initialized_session() as session:
        session.run(steps[0])
        session.run(first)
        before = dict(zip(*session.run(table.export())))
        session.run(steps[1])
        now = dict(zip(*session.run(table.export())))
    assert now.keys() == {3, 5, 9}
    np.testing.assert_array_equal(now[9], before[9])
    assert (now[3] != before[3]).all()
