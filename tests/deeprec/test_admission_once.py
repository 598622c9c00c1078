# SPDX-License-Identifier: Apache-2.0
"""Embedding variables whose lookups are differentiated several times, or by several steps."""

import pytest
import tensorflow as tf

from sok_compat.deeprec.lookups.group_lookup import group_embedding_lookup_sparse
from sok_compat.deeprec.optimizer_rules import stock_optimizers
from sok_compat.deeprec.variables.options import (
    CounterFilter,
    EmbeddingVariableOption,
    GlobalStepEvict,
)
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1


def get_variable(name="v", **settings):
    return get_embedding_variable(
        name,
        2,
        initializer=tf1.ones_initializer(),
        ev_option=EmbeddingVariableOption(**settings),
    )


def descend(loss, *args, **kwargs):
    return stock_optimizers.GradientDescentOptimizer(0.25).minimize(loss, *args, **kwargs)


def test_a_lookup_that_is_differentiated_twice_counts_once(graph):
    variable = get_variable(filter_option=CounterFilter(4))
    rows = tf.nn.embedding_lookup(variable, tf.constant([5, 5, 6], tf.int64))
    step = tf1.train.get_or_create_global_step()
    first, second = descend(tf.reduce_sum(rows), step), descend(tf.reduce_sum(rows * rows))
    known = variable.get_frequency([5, 6])
    with initialized_session() as session:
        session.run([first, second])
        assert session.run(known).tolist() == [2, 1]
        session.run(second)  # by itself
        assert session.run(known).tolist() == [4, 2]
        session.run([first, second])
        assert session.run(known).tolist() == [6, 3]
        assert session.run(variable.export()[0]).tolist() == [5]
        assert session.run(variable.export()[1])[0, 0] < 1.0


def test_a_gradient_of_a_gradient_counts_once(graph):
    variable = get_variable(filter_option=CounterFilter(2))
    rows = tf.nn.embedding_lookup(variable, tf.constant([5], tf.int64))
    (gradient,) = tf.gradients(tf.reduce_sum(rows**3), [variable])
    train = descend(tf.reduce_sum(rows) + tf.reduce_sum(gradient.values**2))
    known = variable.get_frequency([5])
    with initialized_session() as session:
        for count in (1, 2, 3):
            session.run(train)
            assert session.run(known).tolist() == [count]


def test_two_optimizers_of_the_tables_of_a_group_count_once(graph):
    tables = [get_variable(name, filter_option=CounterFilter(4)) for name in "ab"]
    bags = tf.RaggedTensor.from_row_splits(tf.constant([5], tf.int64), [0, 1])
    loss = tf.add_n(
        [tf.reduce_sum(x) for x in group_embedding_lookup_sparse(tables, [bags] * 2, ["sum"] * 2)]
    )
    train = [descend(loss, var_list=[table]) for table in tables]
    known = [table.get_frequency([5])[0] for table in tables]
    with initialized_session() as session:
        for count in (1, 2, 3, 4, 5):
            session.run(train)
            assert session.run(known) == [count, count]
        assert [session.run(table.export()[1])[0, 0] for table in tables] == [0.5, 0.5]


def test_a_saver_from_before_the_training_evicts(graph, tmp_path):
    """When no step is known yet, keys go by the step that the table has counted last."""
    with tf1.variable_scope("", use_resource=True):
        step = tf1.get_variable("mine", [], tf.int64, tf1.zeros_initializer(), trainable=False)
    variable = get_variable(evict_option=GlobalStepEvict(1))
    saver = tf1.train.Saver([variable])
    ids = tf1.placeholder(tf.int64, [None])
    train = descend(tf.reduce_sum(tf.nn.embedding_lookup(variable, ids)), step)
    with initialized_session() as session:
        for batch in ([5], [6], [6], [7]):
            session.run(train, {ids: batch})
        saver.save(session, str(tmp_path / "model"))
        assert session.run(variable.export()[0]).tolist() == [7]


def own_step(name, dtype=tf.int32):
    return tf1.Variable(tf.zeros([], dtype), trainable=False, name=name, use_resource=True)


@pytest.mark.parametrize("has_global_step", [True, False])
@pytest.mark.parametrize("saver_is_made", ["before", "after"])
def test_the_step_of_apply_gradients_counts(graph, tmp_path, has_global_step, saver_is_made):
    """Also where it is not the graph's global step, which nothing increments."""
    if has_global_step:
        tf1.train.get_or_create_global_step()
    variable = get_variable(evict_option=GlobalStepEvict(1))
    ids = tf1.placeholder(tf.int64, [None])
    optimizer = stock_optimizers.GradientDescentOptimizer(0.25)
    pairs = optimizer.compute_gradients(tf.reduce_sum(tf.nn.embedding_lookup(variable, ids)))
    saver = tf1.train.Saver([variable]) if saver_is_made == "before" else None
    train = optimizer.apply_gradients(pairs, own_step("mine"))
    saver = saver or tf1.train.Saver([variable])
    with initialized_session() as session:
        for batch in ([5], [6], [6], [7]):
            session.run(train, {ids: batch})
        keys, _, versions, _ = session.run(variable.export())
        assert dict(zip(keys, versions)) == {5: 0, 6: 2, 7: 3}
        saver.save(session, str(tmp_path / "model"))
        assert session.run(variable.export()[0]).tolist() == [7]


def test_one_step_counts(graph, caplog):
    variable = get_variable(filter_option=CounterFilter(2))
    loss = tf.reduce_sum(tf.nn.embedding_lookup(variable, [5]))
    optimizer = stock_optimizers.GradientDescentOptimizer(0.25)
    pairs, first, second = optimizer.compute_gradients(loss), own_step("a"), own_step("b")
    ordinary = tf1.get_variable("ordinary", [2], use_resource=True)
    optimizer.apply_gradients([(tf.ones([2]), ordinary), (None, variable)], second)
    for step in (None, first, None, first):
        optimizer.apply_gradients(pairs, step)
    optimizer.minimize(loss, second)
    assert not caplog.text
    optimizer.apply_gradients(pairs, second)
    assert "apply_gradients(global_step=b:0): keys of embedding" in caplog.text


def test_parts_know_of_their_own_keys(graph):
    variable = get_embedding_variable(
        "v",
        2,
        partitioner=tf1.fixed_size_partitioner(3),
        ev_option=EmbeddingVariableOption(filter_option=CounterFilter(3)),
    )
    rows = variable.sparse_read(tf.constant([[4, 5], [4, 4], [6, 5]], tf.int64))
    train = descend(tf.reduce_sum(rows), tf1.train.get_or_create_global_step())
    ids = tf.constant([[7, 4, 6], [5, 4, -1]])
    known = variable.get_frequency(ids), variable.get_version(ids)
    with initialized_session() as session:
        for _ in range(2):
            session.run(train)
        freqs, versions = session.run(known)
        assert freqs.tolist() == [[0, 6, 2], [4, 6, 0]]
        assert versions.tolist() == [[0, 1, 1], [1, 1, 0]]
    with pytest.raises(ValueError, match="keeps no history of its keys"):
        plain = get_embedding_variable("p", 2, partitioner=tf1.fixed_size_partitioner(2))
        plain.get_frequency([1])
