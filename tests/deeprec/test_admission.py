# SPDX-License-Identifier: Apache-2.0
"""Filters, counts and eviction of embedding variables in one process."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec import stock_optimizers
from sok_compat.deeprec.group_lookup import group_embedding_lookup_sparse
from sok_compat.deeprec.options import (
    CBFFilter,
    CounterFilter,
    EmbeddingVariableOption,
    GlobalStepEvict,
    InitializerOption,
    L2WeightEvict,
)
from sok_compat.deeprec.variable_creation import get_embedding_variable
from sok_compat.runtime.op_library import ops
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
NO_PERMISSION = -3.0
EXACT, BLOOM = CounterFilter(3), CBFFilter(3, 500, 0.001)


def get_variable(initializer=None, name="v", init=None, **settings):
    init = init or InitializerOption(default_value_no_permission=NO_PERMISSION)
    option = EmbeddingVariableOption(init_option=init, **settings)
    return get_embedding_variable(
        name, 2, initializer=initializer or tf1.ones_initializer(), ev_option=option
    )


class Steps:
    """Gradient descent on the sum of the rows of a batch: a row goes down by 0.25 for each
    occurrence of its key."""

    def __init__(self, variable, optimizer=None, step=None):
        self.variable = variable
        self.step = tf1.train.get_or_create_global_step() if step is None else step
        self.ids = tf1.placeholder(tf.int64, [None])
        self.rows = tf.nn.embedding_lookup(variable, self.ids)
        optimizer = optimizer or stock_optimizers.GradientDescentOptimizer(0.25)
        self.train_op = optimizer.minimize(tf.reduce_sum(self.rows), self.step)
        self.contents = variable.export()

    def train(self, session, *ids):
        """What each of the ids read."""
        return session.run([self.rows, self.train_op], {self.ids: ids})[0][:, 0].tolist()

    def read(self, session, *ids):
        return session.run(self.rows, {self.ids: ids})[:, 0].tolist()

    def held(self, session):
        """{key: (first number of its row, version, freq)}"""
        keys, rows, *known = session.run(self.contents)
        return {key: (row[0], *k) for key, row, *k in zip(keys, rows, *known)}


@pytest.mark.parametrize("key_filter", [EXACT, BLOOM], ids=["CounterFilter", "CBFFilter"])
def test_a_key_gets_its_row_when_it_has_come_often_enough(graph, key_filter):
    steps = Steps(get_variable(filter_option=key_filter))
    known = steps.variable.get_frequency([[5, 6], [7, 8]])
    with initialized_session() as session:
        assert steps.train(session, 5, 6, 5) == [NO_PERMISSION] * 3
        assert steps.held(session) == {}
        assert steps.read(session, 5, 5, 5, 7) == [NO_PERMISSION] * 4  # inference counts nothing
        assert session.run(known).tolist() == [[2, 1], [0, 0]]
        assert steps.train(session, 5, 6) == [NO_PERMISSION] * 2
        assert steps.held(session) == {5: (1.0, 1, 3)}
        assert steps.read(session, 5, 6) == [1.0, NO_PERMISSION]
        assert steps.train(session, 5, 6, 7, 5) == [1.0, NO_PERMISSION, NO_PERMISSION, 1.0]
        assert steps.held(session) == {5: (0.5, 2, 5), 6: (1.0, 2, 3)}
        assert session.run(known).tolist() == [[5, 3], [1, 0]]


@pytest.mark.parametrize("freq", [0, 1])
def test_a_filter_that_lets_all_in(graph, freq):
    steps = Steps(get_variable(filter_option=CounterFilter(freq)))
    with initialized_session() as session:
        assert steps.train(session, 5, 5) == [1.0, 1.0]
        held_keys, rows, versions, freqs = session.run(steps.contents)
    assert held_keys.tolist() == [5] and rows[0, 0] == 0.5
    assert versions.tolist() == [0][:freq] and freqs.tolist() == [2][:freq]


def test_gradients_of_keys_without_a_row_are_left_out(graph):
    variable = get_variable(filter_option=EXACT)
    ids = tf.constant([5, 6, 6, 6])
    rows = tf.nn.embedding_lookup(variable, ids)
    (gradient,) = tf1.gradients(tf.reduce_sum(rows**2), [variable])
    norm = tf.linalg.global_norm([gradient])
    with initialized_session() as session:
        assert session.run(norm) == 0.0
        values, row_ids = session.run([gradient.values, gradient.indices])
    assert row_ids.tolist() == [0] and values.tolist() == [[6.0, 6.0]]


def test_lookups_of_a_group_count_each_occurrence(graph):
    counted = get_variable(name="c", filter_option=CounterFilter(4))
    plain = get_embedding_variable("p", 2, initializer=tf1.ones_initializer())
    bags = tf.RaggedTensor.from_row_splits(tf.constant([5, 5, 6], tf.int64), [0, 2, 2, 3])
    weights = tf.RaggedTensor.from_row_splits([0.5, 0.0, 2.0], bags.row_splits)
    found = group_embedding_lookup_sparse(
        [counted, plain, counted], [bags] * 3, ["sum", "sum", "mean"], sp_weights=[weights] * 3
    )
    optimizer = stock_optimizers.AdamOptimizer(0.1)
    step = tf1.train.get_or_create_global_step()
    train = optimizer.minimize(tf.add_n([tf.reduce_sum(x) for x in found]), step)
    with initialized_session() as session:
        assert session.run([found[0], train])[0][:, 0].tolist() == [-1.5, 0.0, -6.0]
        assert session.run(counted.get_frequency([5, 6])).tolist() == [4, 2]
        assert session.run(found[0])[:, 0].tolist() == [0.5, 0.0, -6.0]
        session.run(train)
        assert session.run(counted.get_frequency([5, 6])).tolist() == [8, 4]
        assert session.run(plain.total_count()).tolist() == [2, 2]


def test_a_key_that_a_step_admits_has_no_row_in_that_step(graph):
    """However the lookups of a step come after each other."""
    variable = get_variable(filter_option=EXACT)
    ids = tf.constant([5, 5, 5, 6])
    first = tf.nn.embedding_lookup(variable, ids)
    (gradient,) = tf1.gradients(tf.reduce_sum(first), [variable])
    with tf.control_dependencies([gradient.indices]):
        second = tf.nn.embedding_lookup(variable, tf.identity(ids))
    (later,) = tf1.gradients(tf.reduce_sum(second), [variable])
    with initialized_session() as session:
        rows, first_ids, second_ids = session.run([second, gradient.indices, later.indices])
        assert rows[:, 0].tolist() == [NO_PERMISSION] * 4
        assert first_ids.tolist() == second_ids.tolist() == []
        assert session.run(variable.get_frequency([5, 6])).tolist() == [6, 2]
        rows, first_ids, second_ids = session.run([second, gradient.indices, later.indices])
        assert rows[:, 0].tolist() == [1.0, 1.0, 1.0, NO_PERMISSION]
        assert first_ids.tolist() == second_ids.tolist() == [0]


def test_rows_of_an_initializer_that_is_run(graph):
    """What a key starts as is that of its default row, also when it gets its row late."""
    init = InitializerOption(default_value_dim=4, default_value_no_permission=NO_PERMISSION)
    values = tf1.constant_initializer(np.arange(8, dtype=np.float32).reshape(4, 2))
    steps = Steps(get_variable(values, init=init, filter_option=CounterFilter(2)))
    with initialized_session() as session:
        steps.train(session, 5, 6, 6, 9)
        assert {k: v[0] for k, v in steps.held(session).items()} == {6: 4.0}
        steps.train(session, 9, 5, 3)
        assert {k: v[0] for k, v in steps.held(session).items()} == {6: 4.0, 5: 2.0, 9: 2.0}


def test_a_key_without_a_row_costs_no_row(graph):
    steps = Steps(get_variable(filter_option=EXACT))
    with initialized_session() as session:
        for first in range(0, 40_000, 2000):
            steps.train(session, *range(first, first + 2000))
        assert session.run(steps.variable.total_count()).tolist() == [0, 2]
        assert steps.train(session, -1, -1, -1) and steps.held(session).keys() == {-1}
        assert session.run(found_rows(steps.variable, [-1])).tolist() == [0]  # the first row
        assert len(session.run(steps.variable.waiting_keys())[0]) == 40_000


def test_old_keys_go_when_a_checkpoint_is_saved(graph, tmp_path):
    steps = Steps(get_variable(evict_option=GlobalStepEvict(2)))
    assert steps.variable.steps_to_live == 2
    saver = tf1.train.Saver()
    with initialized_session() as session:
        for ids in ([5, 6], [7], [6], [7]):
            steps.train(session, *ids)
        assert steps.held(session) == {5: (0.75, 0, 1), 6: (0.5, 2, 2), 7: (0.5, 3, 2)}
        saver.save(session, str(tmp_path / "model"))
        assert steps.held(session) == {6: (0.5, 2, 2), 7: (0.5, 3, 2)}
    assert dict(tf.train.list_variables(str(tmp_path)))["v-keys"] == [2]


def test_light_rows_go_when_a_checkpoint_is_saved(graph, tmp_path):
    steps = Steps(get_variable(evict_option=L2WeightEvict(0.6)))
    saver = tf1.train.Saver()
    with initialized_session() as session:
        steps.train(session, 5, 6, 7, 7)
        assert {k: v[0] for k, v in steps.held(session).items()} == {5: 0.75, 6: 0.75, 7: 0.5}
        saver.save(session, str(tmp_path / "model"))
        assert steps.held(session) == {}
        assert steps.train(session, 7) == [1.0]
        assert steps.held(session) == {7: (0.75, 1, 1)}


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
        assert steps.held(session).keys() == {6}
        steps.train(session, 7)
        row = steps.held(session)[7][0]
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
        assert {key: known[1] for key, known in steps.held(session).items()} == {7: 2}


def test_what_is_recorded_by_the_environment(graph, monkeypatch):
    plain = get_variable(name="p")
    with pytest.raises(ValueError, match="get_frequency|key_history of p: no history"):
        plain.get_frequency([1])
    assert plain.before_save() is None and plain.steps_to_live is None
    monkeypatch.setenv("TF_RECORD_VERSION", "1")
    steps = Steps(get_variable())
    assert steps.variable.before_save() is None
    with initialized_session() as session:
        for ids in ([5], [6], [5]):
            steps.train(session, *ids)
        assert steps.held(session) == {5: (0.5, 2, 2), 6: (0.75, 1, 1)}
        assert session.run(steps.variable.get_version([5, 9])).tolist() == [2, -1]


class Model:
    """What a variable with CounterFilter(3) and GlobalStepEvict(2) holds after Steps."""

    def __init__(self):
        self.held, self.waiting, self.step = {}, {}, 0  # {key: [value, version, freq]}

    def train(self, ids):
        read = [self.held[key][0] if key in self.held else NO_PERMISSION for key in ids]
        for key in ids:
            known = self.held.get(key) or self.waiting.setdefault(key, [1.0, 0, 0])
            known[1:] = [self.step, known[2] + 1]
            known[0] -= 0.25 if key in self.held else 0.0
        admitted = {key: known for key, known in self.waiting.items() if known[2] >= 3}
        self.held.update(admitted)
        self.waiting = {k: known for k, known in self.waiting.items() if k not in admitted}
        self.step += 1
        return read

    def evict(self):
        self.held, self.waiting = (
            {k: known for k, known in keys.items() if known[1] >= self.step - 2}
            for keys in (self.held, self.waiting)
        )


@pytest.mark.parametrize("seed", range(3))
def test_random_steps_follow_the_model(graph, seed):
    rng, model = np.random.default_rng(seed), Model()
    steps = Steps(get_variable(filter_option=EXACT, evict_option=GlobalStepEvict(2)))
    evict, waiting = steps.variable.before_save(), steps.variable.filtered()
    with initialized_session() as session:
        for _ in range(40):
            ids = (rng.geometric(0.05, rng.integers(0, 40)) - 5).tolist()
            assert steps.train(session, *ids) == model.train(ids)
            if rng.random() < 0.3:
                session.run(evict)
                model.evict()
            assert steps.held(session) == {key: tuple(k) for key, k in model.held.items()}
            known = {key: tuple(k) for key, *k in zip(*session.run(waiting))}
            assert known == {key: tuple(k[1:]) for key, k in model.waiting.items()}


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


def test_steps_beside_eviction_read_no_other_keys_row(graph):
    """Steps that have found rows before an eviction go on reading them, while others give new keys
    rows: rows stay what they start as, so each key must read its own."""
    most = 2000
    variable = get_variable(
        tf1.random_uniform_initializer(seed=3),
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
        for _ in range(60):
            steps.train(session, *rng.integers(0, most, 300))
            session.run(evict)
        is_done.set()
        for reader in readers:
            reader.join()
        assert not wrong
        # Rows of steps that have ended are given out again: there are not as many as keys came.
        assert session.run(variable.total_count())[0] < 700
        assert 0 < session.run(found_rows(variable, tf.range(most, dtype=tf.int64))).max() < 3000


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


def found_rows(variable, ids):
    return ops.sok_find_rows([variable.table_handle], [ids], insert=False, keys_are_distinct=False)[
        0
    ]


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


@pytest.mark.parametrize("freq", [3, 5])
def test_what_is_recorded_comes_back(graph, freq):
    """A key with a row keeps it under a stricter filter, and keys that wait go on from there."""
    steps = Steps(get_variable(filter_option=CounterFilter(freq)))
    held = ops.sok_import_planes(
        steps.variable.table_handle, [5, 8], tf.ones([2, 2]), [], slot_names=[], Tkey=tf.int64
    )
    columns = [tf.constant(column, tf.int64) for column in ([5, 8], [7, -1], [4, -1])]
    waiting = [tf.constant(column, tf.int64) for column in ([6], [2], [2])]
    restore = steps.variable.restore_recorded(*columns, waiting)
    saved = steps.variable.recorded(columns[0]), steps.variable.filtered()
    with initialized_session() as session:
        session.run(held)
        session.run(restore)
        (versions, freqs), others = session.run(saved)
        assert versions.tolist() == [7, -1] and freqs.tolist() == [4, freq]
        assert [column.tolist() for column in others] == [[6], [2], [2]]
        assert session.run(steps.variable.get_frequency([5, 6, 9])).tolist() == [4, 2, 0]
        assert steps.train(session, 6, 5) == [NO_PERMISSION, 1.0]
        assert set(steps.held(session)) == ({5, 8, 6} if freq == 3 else {5, 8})
