# SPDX-License-Identifier: Apache-2.0
"""Eviction from embedding variables in one process."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.checkpoint import IncrementalSaver
from sok_compat.deeprec.optimizer_rules import stock_optimizers
from sok_compat.deeprec.variables.options import GlobalStepEvict, InitializerOption, L2WeightEvict
from sok_compat.lookup.initial_rows import InitialRows
from sok_compat.runtime.op_library import ops
from tests.support.deeprec.deeprec_steps import Steps, found_rows, get_variable
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1


def test_old_keys_go_when_a_checkpoint_is_saved(graph, tmp_path):
    steps = Steps(get_variable(evict_option=GlobalStepEvict(2)))
    assert steps.variable.steps_to_live == 2
    saver = tf1.train.Saver()
    with initialized_session() as session:
        for ids in ([5, 6], [7], [6], [7]):
            steps.train(session, *ids)
        assert steps.stored(session) == {5: (0.75, 0, 1), 6: (0.5, 2, 2), 7: (0.5, 3, 2)}
        saver.save(session, str(tmp_path / "model"))
        assert steps.stored(session) == {6: (0.5, 2, 2), 7: (0.5, 3, 2)}
    assert dict(tf.train.list_variables(str(tmp_path)))["v-keys"] == [2]


def test_old_keys_are_gone_from_increments(graph, tmp_path):
    """Also where one comes again."""
    steps = Steps(get_variable(evict_option=GlobalStepEvict(2)))
    saver, path = IncrementalSaver(), str(tmp_path / "model")
    with initialized_session() as session:
        steps.train(session, 5, 6, 8)
        saver.save(session, path, 0)
        for ids in ([7], [6], [7]):
            steps.train(session, *ids)
        path = saver.save_increment(session, path, 1)
        stored = steps.stored(session)
        assert stored.keys() == {6, 7}
        assert tf.train.load_variable(path, "v.increment-keys").tolist() == [6, 7]
        assert tf.train.load_variable(path, "v.increment-gone").tolist() == [5, 8]
        steps.train(session, 5, 6)
        path = saver.save_increment(session, str(tmp_path / "model"), 2)
        stored = steps.stored(session)
        assert tf.train.load_variable(path, "v.increment-gone").tolist() == []
        steps.train(session, 9)
        saver.restore(session, path)
        assert steps.stored(session) == stored and stored.keys() == {5, 6, 7}


def test_light_rows_go_when_a_checkpoint_is_saved(graph, tmp_path):
    steps = Steps(get_variable(evict_option=L2WeightEvict(0.6)))
    saver = tf1.train.Saver()
    with initialized_session() as session:
        steps.train(session, 5, 6, 7, 7)
        assert {k: v[0] for k, v in steps.stored(session).items()} == {5: 0.75, 6: 0.75, 7: 0.5}
        saver.save(session, str(tmp_path / "model"))
        assert steps.stored(session) == {}
        assert steps.train(session, 7) == [1.0]
        assert steps.stored(session) == {7: (0.75, 1, 1)}


def test_slots_of_a_row_start_afresh(graph):
    steps = Steps(
        get_variable(evict_option=GlobalStepEvict(1)),
        stock_optimizers.AdagradOptimizer(0.5, initial_accumulator_value=0.1),
    )
    evict = steps.variable.before_save()
    with initialized_session() as session:
        for ids in ([5], [5], [5], [6], [6]):
            steps.train(session, *ids)
        session.run(evict)
        assert steps.stored(session).keys() == {6}
        steps.train(session, 7)
        row = steps.stored(session)[7][0]
    np.testing.assert_allclose(row, 1.0 - 0.5 / np.sqrt(1.1), rtol=1e-6)


def test_a_global_step_of_the_scripts_own(graph):
    with tf1.variable_scope("", use_resource=True):
        step = tf1.get_variable("mine", [], tf.int32, tf1.zeros_initializer(), trainable=False)
    steps = Steps(get_variable(evict_option=GlobalStepEvict(1)), step=step)
    evict = steps.variable.before_save()
    assert tf1.train.get_global_step() is None
    with initialized_session() as session:
        for ids in ([5], [6], [7]):
            steps.train(session, *ids)
        session.run(evict)
        assert {key: known[1] for key, known in steps.stored(session).items()} == {7: 2}


def test_a_step_that_fails_keeps_no_rows(graph):
    steps = Steps(get_variable(evict_option=GlobalStepEvict(1)))
    evict = steps.variable.before_save()
    with tf.control_dependencies([steps.rows]):
        fails = tf.debugging.Assert(False, ["on purpose"])
    with initialized_session() as session:
        steps.train(session, 5)
        with pytest.raises(tf.errors.InvalidArgumentError, match="on purpose"):
            session.run(fails, {steps.ids: [5]})
        for _ in range(3):
            steps.train(session, 6)
        session.run(evict)
        steps.train(session, 7)
        assert session.run(found_rows(steps.variable, [7, 6, 5])).tolist() == [0, 1, -1]


@pytest.mark.parametrize("seed", [None, 3])
def test_steps_beside_eviction_read_no_other_keys_row(graph, seed):
    """Steps that have found rows before an eviction go on reading them, while others give new keys
    rows: rows stay what they start as, so each key must read its own."""
    most = 2000
    variable = get_variable(
        tf1.random_uniform_initializer(seed=seed),
        init=InitializerOption(default_value_dim=most),
        evict_option=GlobalStepEvict(1),
    )
    steps = Steps(variable, stock_optimizers.GradientDescentOptimizer(0.0))
    evict, late_rows = variable.before_save(), rows_after(0.003, variable, steps.ids)
    wrong, is_done = [], threading.Event()

    def read_rows(session, expected, seed):
        rng = np.random.default_rng(seed)
        while not is_done.is_set():
            batch = rng.integers(0, most, 300)
            found = session.run(late_rows, {steps.ids: batch})
            wrong.extend(batch[np.any(found != expected[batch], axis=1)])

    with initialized_session() as session:
        expected = session.run(steps.rows, {steps.ids: range(most)})
        readers = [threading.Thread(target=read_rows, args=(session, expected, n)) for n in (1, 2)]
        for reader in readers:
            reader.start()
        rng = np.random.default_rng(9)

        def train_and_evict(times):
            for _ in range(times):
                steps.train(session, *rng.integers(0, most, 300))
                session.run(evict)

        train_and_evict(60)
        is_done.set()
        for reader in readers:
            reader.join()
        assert not wrong
        # Rows of steps that have ended are given out again: no more are needed than came meanwhile.
        train_and_evict(120)
        assert session.run(variable.total_count())[0] < 700
        rows = session.run(found_rows(variable, tf.range(most, dtype=tf.int64)))
        assert 0 < rows.max() < 60 * 300


@pytest.mark.parametrize("evict_option", [L2WeightEvict(1e9), GlobalStepEvict(1)])
def test_keys_start_as_a_lookup_says_beside_eviction(graph, evict_option):
    variable = get_variable(tf1.zeros_initializer(), evict_option=evict_option)
    ids = tf1.placeholder(tf.int64, [None])
    initial_rows = InitialRows(
        ids, lambda numbers: tf.cast(numbers[:, tf.newaxis] + [1, 2], "float")
    )
    rows = variable.sparse_read(ids, initial_rows=initial_rows)
    step = tf1.train.get_or_create_global_step()
    optimizer = stock_optimizers.GradientDescentOptimizer(0.0)
    train, evict = optimizer.minimize(tf.reduce_sum(rows), step), variable.before_save()
    wrong, is_done = [], threading.Event()

    def train_rows(session, seed):
        rng = np.random.default_rng(seed)
        for _ in range(100):
            batch = rng.integers(0, 60, 30)
            found, _ = session.run([rows, train], {ids: batch})
            wrong.extend(batch[np.any(found != batch[:, np.newaxis] + [1, 2], axis=1)])

    def evict_rows(session):
        while not is_done.is_set():
            session.run(evict)

    with initialized_session() as session:
        evicting = threading.Thread(target=evict_rows, args=[session])
        evicting.start()
        trainers = [threading.Thread(target=train_rows, args=(session, seed)) for seed in (1, 2)]
        for trainer in trainers:
            trainer.start()
        for trainer in trainers:
            trainer.join()
        is_done.set()
        evicting.join()
    assert not wrong


def rows_after(seconds, variable, ids):
    """The rows of ids, which wait for a time between finding and reading them."""

    def wait(row_ids):
        time.sleep(seconds)
        return row_ids

    waited = tf.numpy_function(wait, [found_rows(variable, ids)], tf.int64)
    waited.set_shape([None])
    (rows,) = ops.sok_pool_rows(
        rows=[variable.handle],
        tables=[variable.table_handle],
        keys=[ids],
        row_ids=[waited],
        absent_rows=[tf.zeros([0, variable.dim])],
        inverse=[tf.range(tf.size(ids))],
        row_splits=[tf.constant([], tf.int64)],
        weights=[tf.constant([], tf.float32)],
        combiners=["none"],
        dims=[variable.dim],
        all_keys_have_rows=False,
    )
    return rows


def test_a_step_that_knows_all_rows_goes_on_reading_them(graph):
    steps = Steps(get_variable(evict_option=GlobalStepEvict(1)))
    asked, goes_on, read = threading.Event(), threading.Event(), []

    def wait(row_ids):
        asked.set()
        assert goes_on.wait(60)
        return row_ids

    row_ids = tf1.py_func(wait, [ops.sok_rows_in_use(steps.variable.table_handle)], tf.int64)
    rows = tf.raw_ops.ResourceGather(
        resource=steps.variable.handle, indices=row_ids, dtype=tf.float32
    )
    evict = steps.variable.evict(100, 1)
    with initialized_session() as session:
        steps.train(session, 5)
        reader = threading.Thread(target=lambda: read.append(session.run(rows)))
        reader.start()
        assert asked.wait(60)
        assert session.run(evict) == 1
        steps.train(session, 77, 77)
        goes_on.set()
        reader.join()
        assert read[0].tolist() == [[0.75, 0.75]]
        assert session.run(found_rows(steps.variable, [77])).tolist() == [1]
