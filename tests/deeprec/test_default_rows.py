# SPDX-License-Identifier: Apache-2.0
"""Default rows of embedding variables: what keys start as."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.lookups.stock_lookups import embedding_lookup
from sok_compat.deeprec.optimizer_rules.stock_optimizers import AdagradOptimizer
from sok_compat.deeprec.variables.embedding_variable import (
    EV_INIT_SLOT_OPS,
    EV_INIT_VAR_OPS,
)
from sok_compat.deeprec.variables.options import (
    CounterFilter,
    EmbeddingVariableOption,
    InitializerOption,
)
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1


def with_init(**settings):
    return EmbeddingVariableOption(init_option=InitializerOption(**settings))


INITIALIZERS = {
    "default": None,
    "class": tf1.glorot_uniform_initializer,
    "instance": tf1.random_normal_initializer(stddev=0.5),
    "keras": "he_normal",
    "callable": lambda shape, dtype=None, partition_info=None: tf.random.uniform(shape, seed=3),
    "array": tf1.constant_initializer(np.arange(15, dtype=np.float32).reshape(5, 3)),
    "orthogonal": tf1.orthogonal_initializer(),
}


@pytest.mark.parametrize("where", ["argument", "option"])
@pytest.mark.parametrize("kind", INITIALIZERS)
def test_default_rows(graph, kind, where):
    """A key starts as that of floormod(key, default_value_dim), and its row keeps that."""
    initializer = INITIALIZERS[kind]
    if where == "option":
        option = with_init(initializer=initializer, default_value_dim=5)
        variable = get_embedding_variable(
            "v", 3, initializer=tf1.ones_initializer(), ev_option=option
        )
        if initializer is None:
            return
    else:
        option = with_init(default_value_dim=5)
        variable = get_embedding_variable("v", 3, initializer=initializer, ev_option=option)
    keys = np.array([0, 1, 2, 3, 4, 7, -1, 10**12, np.iinfo(np.int64).max, np.iinfo(np.int64).min])
    rows = tf.nn.embedding_lookup(variable, keys)
    gradient = tf.gradients(rows, variable)[0]
    with initialized_session() as session:
        before = session.run(rows)
        assert len(np.unique(before[:5], axis=0)) == 5
        np.testing.assert_array_equal(before, before[keys % 5])
        assert session.run(variable.total_count()).tolist() == [0, 3]
        session.run(gradient)
        assert session.run(variable.total_count()).tolist() == [10, 3]
        np.testing.assert_array_equal(session.run(rows), before)
        exported, exported_rows, versions, freqs = session.run(variable.export())
    assert dict(zip(exported, map(tuple, exported_rows))) == dict(zip(keys, map(tuple, before)))
    assert versions.shape == freqs.shape == (0,)


@pytest.mark.parametrize("key_filter", [None, CounterFilter(1)], ids=["plain", "counted"])
@pytest.mark.parametrize("make", [
    tf1.glorot_uniform_initializer, tf1.truncated_normal_initializer, tf.keras.initializers.HeNormal
])  # fmt: skip
def test_rows_of_a_seed_are_those_of_an_ordinary_variable(graph, make, key_filter):
    """Trained, too; so a seeded run can be compared number by number."""
    option = EmbeddingVariableOption(
        init_option=InitializerOption(default_value_dim=8), filter_option=key_filter
    )
    tf1.set_random_seed(7)
    parts = tf1.fixed_size_partitioner(3)
    tables = [
        get_embedding_variable("a", 3, initializer=make(seed=1), ev_option=option),
        get_embedding_variable(
            "b", 3, initializer=make(seed=1), ev_option=option, partitioner=parts
        ),
        tf1.get_variable("rows", [8, 3], initializer=make(seed=1), use_resource=True),
    ]
    keys = tf.constant([0, 5, 7, 2], tf.int64)
    loss = tf.add_n([tf.reduce_sum(embedding_lookup(t, keys) ** 2) for t in tables])
    train = AdagradOptimizer(0.1).minimize(loss)
    later = [embedding_lookup(table, [0, 1, 2, 3, 4, 5, 6, 7]) for table in tables]
    beyond = tf.nn.embedding_lookup(tables[0], [12, 11, -5])
    with initialized_session() as session:
        for _ in range(2):
            session.run(train)
            a, b, ordinary = session.run(later)
            np.testing.assert_allclose(a, ordinary, rtol=1e-6)
            np.testing.assert_array_equal(b, a)
        np.testing.assert_array_equal(session.run(beyond), ordinary[[4, 3, 3]])


@pytest.mark.parametrize("initializer", [
    tf1.glorot_uniform_initializer(seed=3), tf1.orthogonal_initializer(seed=3),
    lambda shape, dtype=None, partition_info=None: tf.random.normal(shape, seed=3),
], ids=["glorot", "orthogonal", "callable"])  # fmt: skip
@pytest.mark.parametrize("num_parts", [1, 3])
def test_default_rows_are_drawn_once(graph, initializer, num_parts):
    """By the first of a session's initializations; a later one empties the table."""
    option = with_init(default_value_dim=6)
    parts = tf1.fixed_size_partitioner(num_parts)
    table = get_embedding_variable(
        "v", 3, initializer=initializer, ev_option=option, partitioner=parts
    )
    ordinary = tf1.get_variable("rows", [6, 3], initializer=initializer, use_resource=True)
    keys = tf.constant([0, 5, 3, 2, 8], tf.int64)
    rows = embedding_lookup(table, keys)
    train = AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows**2))
    for _ in range(2):
        with tf1.Session() as session:
            session.run(tf1.get_collection(EV_INIT_VAR_OPS))
            session.run(tf1.get_collection(EV_INIT_SLOT_OPS))
            session.run(tf1.global_variables_initializer())
            expected = session.run(ordinary)[[0, 5, 3, 2, 2]]
            np.testing.assert_array_equal(session.run(rows), expected)
            session.run(train)
            session.run(tf1.get_collection(EV_INIT_VAR_OPS))
            assert session.run(table.total_count()).tolist() == [0, 3]
            np.testing.assert_array_equal(session.run(rows), expected)


UNSEEDED = {
    "tf1": tf1.orthogonal_initializer,
    "keras": tf.keras.initializers.Orthogonal,
    "callable": lambda: lambda shape, dtype=None, partition_info=None: tf.random.gamma(shape, 1.0),
}


@pytest.mark.parametrize("kind", UNSEEDED)
def test_rows_without_a_seed_follow_the_graph_seed_and_the_name(kind):
    """Whatever else is in the graph, as the graphs of ranks may differ."""

    def rows(name, seed=None, others=0):
        with tf.Graph().as_default():
            tf1.set_random_seed(seed)
            for _ in range(others):
                tf.zeros([])
            option = with_init(default_value_dim=5)
            variable = get_embedding_variable(
                name, 3, initializer=UNSEEDED[kind](), ev_option=option
            )
            with initialized_session() as session:
                return session.run(tf.nn.embedding_lookup(variable, [3, 4])).tolist()

    assert rows("v") == rows("v", others=7)
    assert rows("v", seed=1) == rows("v", seed=1, others=7)
    assert rows("v") != rows("w") and rows("v") != rows("v", seed=1)


@pytest.mark.parametrize("value", [[1.0, 2.0], np.array([[1.0, 2.0]]), (1, 2)])
def test_one_default_row(graph, value):
    variable = get_embedding_variable("v", 2, initializer=value)
    with initialized_session() as session:
        rows = session.run(tf.nn.embedding_lookup(variable, [4, -9]))
    np.testing.assert_array_equal(rows, [[1, 2], [1, 2]])
    with pytest.raises(ValueError, match=r"one row \[embedding_dim = 2\].* got shape \(3,\)"):
        get_embedding_variable("w", 2, initializer=[1.0, 2.0, 3.0])


def test_rows_follow_the_graph_seed_and_the_name():
    def rows(seed, name):
        with tf.Graph().as_default():
            tf1.set_random_seed(seed)
            found = tf.nn.embedding_lookup(get_embedding_variable(name, 2), [3, 4])
            with initialized_session() as session:
                return session.run(found).tolist()

    assert rows(1, "v") == rows(1, "v")
    assert rows(1, "v") != rows(2, "v") and rows(1, "v") != rows(1, "w")
