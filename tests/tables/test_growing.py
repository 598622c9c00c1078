# SPDX-License-Identifier: Apache-2.0
"""Tables without a declared capacity: their planes move when they grow, and nobody sees it."""

import threading

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.tables import Table
from tests.support.lookups import lookup
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
UNDECLARED = 2**32 - 1  # rows, kMaxRows of ops/engine/plane_options.h
DIM = 64
MANY = 300_000  # rows of DIM floats, more than a plane starts with


class Model:
    """A table with Adagrad, in the default graph; gradients differ from key to key."""

    def __init__(self, name, capacity):
        self.table = Table(capacity, DIM, "ones", name=name)
        self.keys = tf1.placeholder(tf.int64, [None])
        self.rows = lookup(self.table, self.keys, True)
        scale = tf.cast(self.keys % 7 + 1, tf.float32)
        (gradient,) = tf.gradients(self.rows, [self.table], grad_ys=[tf.ones_like(self.rows)])
        gradient = tf.IndexedSlices(gradient.values * scale[:, None], gradient.indices)
        with sok.OptimizerScope([self.table]):
            self.train = tf1.train.AdagradOptimizer(0.1).apply_gradients([(gradient, self.table)])


@pytest.fixture
def models(graph):
    sok.Init(global_batch_size=1, seed=1)
    return [Model("undeclared", UNDECLARED), Model("declared", MANY)]


def test_trains_as_a_table_of_a_declared_capacity(models):
    with initialized_session() as session:
        for begin, end in ((0, 1000), (500, 2000), (0, MANY), (MANY - 1000, MANY)):
            for model in models:
                session.run(model.train, {model.keys: np.arange(begin, end)})
        some = np.random.default_rng(1).permutation(MANY)[:5000]
        rows, expected = (session.run(m.rows, {m.keys: some}) for m in models)
        assert session.run(models[0].table.num_keys()) == MANY
    assert np.ptp(expected) > 0.1
    np.testing.assert_array_equal(rows, expected)


def test_threads_that_insert_at_once(models):
    model = models[0]
    parts = np.array_split(np.random.default_rng(2).permutation(MANY), 24)
    errors = []

    def insert(session, mine):
        try:
            for part in mine:
                rows = session.run(model.rows, {model.keys: part})
                np.testing.assert_array_equal(rows, 1.0)
        except Exception as error:  # noqa: BLE001  told to the test's own thread
            errors.append(error)

    with initialized_session() as session:
        threads = [threading.Thread(target=insert, args=(session, parts[i::4])) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        keys, rows = session.run(model.table.export())
    assert len(set(keys)) == MANY
    assert np.all(rows == 1.0)


def test_loading_more_rows_than_a_plane_starts_with(graph):
    sok.Init(global_batch_size=1, seed=1)
    table = sok.core.EmbeddingVariable([UNDECLARED, DIM], 0, name="table")
    values = tf1.placeholder(tf.float32, [None, DIM])
    load = sok.Saver().load_embedding_values(table, values)
    given = np.random.default_rng(3).normal(size=[MANY, DIM]).astype(np.float32)
    with initialized_session() as session:
        session.run(load, {values: given})
        keys, rows = session.run(table.export())
    np.testing.assert_array_equal(rows[np.argsort(keys)], given)
