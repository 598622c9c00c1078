# SPDX-License-Identifier: Apache-2.0
"""Gradients of variables that are on several ranks are known again, and no others."""

import pytest
import tensorflow as tf

from sok_compat.ranks.shared_gradients import is_unknown, table_of, watch_gradients
from tests.support.saves.undone import integrations_undone

tf1 = tf.compat.v1


class Variables:
    """Of which `shared` stands for a table."""

    def __init__(self):
        self.shared, self.other = (tf1.Variable(tf.ones([9, 3]), use_resource=True) for _ in "ab")
        self.dense = tf1.Variable(tf.ones([3, 1]), use_resource=True)
        self.all = [self.shared, self.other, self.dense]

    def loss(self):
        keys = tf.constant([2, 5, 2])
        features = tf.gather(self.shared, keys) + tf.gather(self.other, keys)
        return tf.reduce_sum(tf.sin(features @ self.dense)) + 0.0


@pytest.fixture
def variables():
    """With gradients of one of them watched; for eager mode."""
    with integrations_undone():
        made = Variables()
        watch_gradients(lambda variable: variable is made.shared)
        yield made


def taped(variables, loss):
    with tf.GradientTape() as tape:
        value = loss()
    return tape.gradient(value, {"all": variables.all})["all"]


def slices(gradient, values=None, indices=None):
    return tf.IndexedSlices(
        gradient.values if values is None else values,
        gradient.indices if indices is None else indices,
        gradient.dense_shape,
    )


def check(variables, gradients):
    shared, other, dense = gradients
    assert table_of(shared) is variables.shared
    assert table_of(shared.values) is table_of(shared.indices) is variables.shared
    assert table_of(other) is table_of(dense) is None
    assert table_of(slices(shared, 2.0 * shared.values)) is variables.shared
    clipped, _ = tf.clip_by_global_norm(gradients, 0.1, use_norm=tf.constant(1.0))
    assert [table_of(gradient) for gradient in clipped] == [table_of(g) for g in gradients]
    assert not is_unknown(shared) and not is_unknown(dense) and table_of(None) is None


def check_symbolic(variables, gradients):
    check(variables, gradients)
    shared, other, dense = gradients
    norm = tf.linalg.global_norm([shared.values])
    assert table_of(dense / norm) is None and table_of(norm) is None
    scaled = tf.where(shared.values > 0.0, -shared.values, tf.clip_by_value(shared.values, 0, 1))
    assert table_of(tf.identity(scaled)) is variables.shared
    seen = []

    def branch():
        seen.append(table_of(slices(shared, 2.0 * shared.values, tf.identity(shared.indices))))
        seen.append(table_of(other))
        return tf.constant(0)

    tf.cond(norm > 0.0, branch, branch)
    assert seen == [variables.shared, None] * 2


@pytest.mark.parametrize("in_function", [False, True], ids=["eager", "forward in a function"])
def test_eager(variables, in_function):
    loss = tf.function(variables.loss) if in_function else variables.loss
    check(variables, taped(variables, loss))


@pytest.mark.parametrize("nested", [False, True])
def test_function(variables, nested):
    loss = tf.function(variables.loss) if nested else variables.loss
    tf.function(lambda: check_symbolic(variables, taped(variables, loss)), autograph=False)()


def test_a_function_captures_the_mark_and_does_not_get_it(variables):
    shared, other, _ = taped(variables, variables.loss)
    seen = []

    @tf.function(autograph=False)
    def captures():
        seen.append(table_of(slices(shared, 2.0 * shared.values)))
        seen.append(is_unknown(shared) or is_unknown(other))

    @tf.function(autograph=False)
    def gets(gradient):
        seen.append((table_of(gradient), is_unknown(gradient)))

    captures()
    gets(shared)
    assert seen == [variables.shared, False, (None, True)]


def test_graph():
    with integrations_undone(), tf.Graph().as_default():
        made = Variables()
        watch_gradients(lambda variable: variable is made.shared)
        check_symbolic(made, tf.gradients(made.loss(), made.all))
        optimizer = tf1.train.GradientDescentOptimizer(0.1)
        check_symbolic(made, [g for g, _ in optimizer.compute_gradients(made.loss(), made.all)])


def test_a_dense_gradient_is_a_tensor_of_its_own(variables):
    """That of another variable may be the same tensor."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variables.shared + variables.other)
    shared, other = tape.gradient(loss, [variables.shared, variables.other])
    assert table_of(shared) is variables.shared and table_of(other) is None


def test_the_tape_is_checked_first(variables):
    calls = []
    with integrations_undone():
        watch_gradients(lambda variable: variable is variables.shared, lambda *a: calls.append(a))
        with tf.GradientTape(persistent=True) as tape:
            loss = variables.loss()
        tape.gradient(loss, variables.dense)
        assert calls == []
        tape.gradient(loss, variables.shared)
        assert calls == [(tape, [variables.shared])]
