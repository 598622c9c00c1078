# SPDX-License-Identifier: Apache-2.0
"""Graphs, sessions and threads: what is shared, what is not, and what must run first."""

import threading

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from tests.support.cases.layer_cases import LayerCase
from tests.support.cases.optimizer_cases import COMMON_OPTIMIZERS, STOCK_OPTIMIZERS
from tests.support.sessions import initialized_session

LAYER = LayerCase("dynamic", True, "int64")
optimizers = pytest.mark.parametrize("optimizer", COMMON_OPTIMIZERS, ids=str)


class Training:
    """One table in the default graph, trained on keys that are fed."""

    def __init__(self, optimizer, capacity=1000):
        self.layer, self.keys = LAYER.make_layer(capacity), LAYER.placeholder()
        self.table = self.layer.embedding_variable
        self.output = self.layer(self.keys)
        self.read = self.layer(self.keys, training=False)
        gradients = tf.gradients(tf.reduce_sum(tf.sin(self.output)), [self.table])
        self.step = optimizer.train_tables(gradients, [self.table])
        self.size = self.table.num_keys()
        self.exported = self.table.export()

    def rows(self, session):
        keys, rows = session.run(self.exported)
        return dict(zip(keys.tolist(), rows))


@optimizers
def test_sessions_of_one_graph_are_independent(sok, optimizer):
    training = Training(optimizer)
    with initialized_session() as first, initialized_session() as second:
        for _ in range(3):
            first.run(training.step, {training.keys: [1, 2]})
        second.run(training.step, {training.keys: [2, 3]})
        assert (first.run(training.size), second.run(training.size)) == (2, 2)
        assert set(training.rows(second)) == {2, 3}
        second.run(training.step, {training.keys: [2]})
        second.run(training.step, {training.keys: [2, 1]})
        rows = training.rows(second)
    with initialized_session() as alone:
        for keys in ([2, 3], [2], [2, 1]):
            alone.run(training.step, {training.keys: keys})
        expected = training.rows(alone)
    assert rows.keys() == expected.keys()
    for key, row in rows.items():
        np.testing.assert_array_equal(row, expected[key])


def test_several_graphs_in_a_process():
    """Also with reset_default_graph in between, as notebooks do."""
    runs = []
    for _ in range(3):
        tf.compat.v1.reset_default_graph()
        with tf.compat.v1.get_default_graph().as_default():
            sok_compat.Init(global_batch_size=8, seed=4)
            training = Training(COMMON_OPTIMIZERS[0])
            with initialized_session() as session:
                assert session.run(training.size) == 0
                for keys in ([1, 2], [2, 5], [9]):
                    session.run(training.step, {training.keys: keys})
                runs.append(training.rows(session))
    for run in runs[1:]:
        assert list(run) == list(runs[0])
        for key, row in run.items():
            np.testing.assert_array_equal(row, runs[0][key])


# Not a training step: there TensorFlow's own error for the optimizer's variables may come first.
@pytest.mark.parametrize("fetch", ["output", "read", "size", "exported"])
def test_before_the_initializer_has_run(sok, fetch):
    training = Training(COMMON_OPTIMIZERS[0])
    with tf.compat.v1.Session() as session:
        with pytest.raises(
            tf.errors.FailedPreconditionError,
            match=r"EmbeddingVariable.* not been initialized: run .*global_variables_initializer",
        ):
            session.run(getattr(training, fetch), {training.keys: [1]})
        assert session.run(tf.compat.v1.report_uninitialized_variables()).size > 0
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run(tf.compat.v1.report_uninitialized_variables()).size == 0
        session.run(training.step, {training.keys: [1]})


@optimizers
def test_running_the_initializer_again_empties_the_table(sok, optimizer):
    """And puts optimizer states back: the second run is as the first."""
    training = Training(optimizer)
    runs = []
    with initialized_session() as session:
        for _ in range(2):
            session.run(tf.compat.v1.global_variables_initializer())
            assert session.run(training.size) == 0
            for keys in ([1, 2], [2, 5], [9]):
                session.run(training.step, {training.keys: keys})
            runs.append(training.rows(session))
    assert list(runs[0]) == list(runs[1]) == [1, 2, 5, 9]
    for key, row in runs[0].items():
        np.testing.assert_array_equal(runs[1][key], row)


@pytest.mark.parametrize(
    "optimizer", [COMMON_OPTIMIZERS[0], COMMON_OPTIMIZERS[3], STOCK_OPTIMIZERS[1]], ids=str
)
def test_threads_lose_no_keys(sok, optimizer):
    """Training, lookups and reads of one session at the same time, while the table grows."""
    training = Training(optimizer, capacity=100_000)
    failures = []

    def work(run_once):
        try:
            for step in range(60):
                run_once(step)
        except Exception as error:  # a thread's failure must reach the test
            failures.append(error)

    with initialized_session() as session:

        def train(step):
            session.run(training.step, {training.keys: np.arange(step * 200, step * 200 + 300)})

        def look_up(step):
            keys = np.arange(step * 200, step * 200 + 400)[::-1]
            assert session.run(training.output, {training.keys: keys}).shape == (400, LAYER.dim)

        def read(step):
            rows = session.run(training.read, {training.keys: np.arange(step * 100)})
            assert np.all(np.isfinite(rows))

        threads = [threading.Thread(target=work, args=[job]) for job in (train, look_up, read)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        rows = training.rows(session)
        assert sorted(rows) == list(range(59 * 200 + 400))
        assert all(np.all(row != 0) and np.all(np.abs(row) < 2) for row in rows.values())
