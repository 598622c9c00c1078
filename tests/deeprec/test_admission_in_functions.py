# SPDX-License-Identifier: Apache-2.0
"""Lookups in functions that TensorFlow runs as steps of their own are of the step that calls."""

import threading

import pytest
import tensorflow as tf

from sok_compat.deeprec.optimizer_rules import stock_optimizers
from sok_compat.deeprec.variables.options import (
    CounterFilter,
    EmbeddingVariableOption,
    GlobalStepEvict,
)
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.lookup.find_rows import find_rows
from sok_compat.lookup.new_keys import NewKeys
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1


def get_variable(**settings):
    return get_embedding_variable(
        "v",
        2,
        initializer=tf1.ones_initializer(),
        ev_option=EmbeddingVariableOption(**settings),
    )


def called(function):
    """What a function gives whose ops do not take the place of the call."""
    return tf.function(function, experimental_attributes={"_noinline": True})()


def in_branch(function):
    return tf.cond(tf1.placeholder_with_default(True, []), function, lambda: tf.zeros([3, 2]))


@pytest.mark.parametrize("looks_up", [called, in_branch], ids=["called", "in_branch"])
@pytest.mark.parametrize("trains", [called, lambda function: function()], ids=["called", "there"])
def test_a_key_that_a_step_admits_has_no_row_in_its_functions(graph, looks_up, trains):
    variable = get_variable(filter_option=CounterFilter(2))
    ids = tf.constant([5, 5, 6], tf.int64)
    first = trains(lambda: tf.nn.embedding_lookup(variable, ids))
    (gradient,) = tf1.gradients(tf.reduce_sum(first), [variable])
    with tf.control_dependencies([gradient.indices]):
        rows = looks_up(lambda: tf.nn.embedding_lookup(variable, tf.identity(ids)))
        outside = tf.nn.embedding_lookup(variable, tf.identity(ids))
    with initialized_session() as session:
        for expected in ([0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]):
            for found in session.run([rows, outside]):
                assert found[:, 0].tolist() == expected


def test_rows_that_a_function_has_found_are_kept_until_the_step_ends(graph):
    variable = get_variable(evict_option=GlobalStepEvict(1))
    step = tf1.train.get_or_create_global_step()
    ids = tf1.placeholder(tf.int64, [None])
    rows = tf.nn.embedding_lookup(variable, ids)
    train = stock_optimizers.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(rows), step)
    has_found, may_end = threading.Event(), threading.Event()

    def wait(row_ids):
        has_found.set()
        assert may_end.wait(60)
        return row_ids

    found = called(lambda: find_rows([variable], [tf.constant([5], tf.int64)], [NewKeys()])[0][0])
    kept = tf.numpy_function(wait, [found], tf.int64)
    row_id = find_rows([variable], [ids], [NewKeys()])[0][0]
    evict = variable.evict(tf.constant(9, tf.int64), steps_to_live=1)
    with initialized_session() as session:
        session.run(train, {ids: [5]})
        slow = threading.Thread(target=session.run, args=(kept,))
        slow.start()
        assert has_found.wait(60)
        assert session.run(evict) == 1
        session.run(train, {ids: [6]})
        assert session.run(row_id, {ids: [6]}).tolist() == [1]  # the slow step may read row 0
        may_end.set()
        slow.join()
        session.run(train, {ids: [7]})
        assert session.run(row_id, {ids: [7]}).tolist() == [0]


@pytest.mark.parametrize("gradients", [1, 2])
def test_tapes_count_keys_once(graph, gradients):
    variable = get_variable(filter_option=CounterFilter(2))
    ids = tf1.placeholder(tf.int64, [None])
    with tf.GradientTape(persistent=True) as tape:
        rows = tf.nn.embedding_lookup(variable, ids)
        losses = [tf.reduce_sum(rows * factor) for factor in (1.0, 2.0)[:gradients]]
    optimizer = tf1.train.GradientDescentOptimizer(0.25)
    steps = [
        optimizer.apply_gradients([(tape.gradient(loss, variable), variable)]) for loss in losses
    ]
    counts = variable.get_frequency([[5, 6]])
    with initialized_session() as session:
        session.run(steps, {ids: [5, 5, 6]})
        assert session.run(counts).tolist() == [[2, 1]]
        trained = 1.0 - 0.5 * sum((1.0, 2.0)[:gradients])
        assert session.run(rows, {ids: [5, 6]})[:, 0].tolist() == [trained, 0.0]


def test_a_tape_in_a_function_trains_as_a_graph(graph):
    variable = get_variable(filter_option=CounterFilter(2))
    optimizer = tf1.train.GradientDescentOptimizer(0.25)

    @tf.function
    def step(ids):
        with tf.GradientTape() as tape:
            rows = tf.nn.embedding_lookup(variable, ids)
            loss = tf.reduce_sum(rows)
        optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])
        return rows

    ids = tf1.placeholder(tf.int64, [None])
    rows = step(ids)
    with initialized_session() as session:
        for expected in ([0.0, 0.0], [0.0, 0.0], [0.75, 0.75], [0.5, 0.5]):
            assert session.run(rows, {ids: [5, 6]})[:, 0].tolist() == expected
