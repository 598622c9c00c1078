# SPDX-License-Identifier: Apache-2.0
"""Filters and counts of embedding variables in one process."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.lookups.group_lookup import group_embedding_lookup_sparse
from sok_compat.deeprec.optimizer_rules import stock_optimizers
from sok_compat.deeprec.optimizer_rules.adagrad_decay_optimizers import AdagradDecayOptimizer
from sok_compat.deeprec.optimizer_rules.adam_optimizers import AdamAsyncOptimizer
from sok_compat.deeprec.optimizer_rules.gradient_averages import gradients
from sok_compat.deeprec.variables.options import (
    CBFFilter,
    CounterFilter,
    GlobalStepEvict,
    InitializerOption,
)
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.tables.rows.row_writes import write_rows
from tests.support.deeprec.deeprec_steps import NO_PERMISSION, Steps, found_rows, get_variable
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
EXACT, BLOOM = CounterFilter(3), CBFFilter(3, 500, 0.001)


@pytest.mark.parametrize("key_filter", [EXACT, BLOOM], ids=["CounterFilter", "CBFFilter"])
def test_a_key_gets_its_row_when_it_has_come_often_enough(graph, key_filter):
    steps = Steps(get_variable(filter_option=key_filter))
    known = steps.variable.get_frequency([[5, 6], [7, 8]])
    with initialized_session() as session:
        assert steps.train(session, 5, 6, 5) == [NO_PERMISSION] * 3
        assert steps.stored(session) == {}
        assert steps.read(session, 5, 5, 5, 7) == [NO_PERMISSION] * 4  # inference counts nothing
        assert session.run(known).tolist() == [[2, 1], [0, 0]]
        assert steps.train(session, 5, 6) == [NO_PERMISSION] * 2
        assert steps.stored(session) == {5: (0.75, 1, 3)}
        assert steps.read(session, 5, 6) == [0.75, NO_PERMISSION]
        assert steps.train(session, 5, 6, 7, 5) == [0.75, NO_PERMISSION, NO_PERMISSION, 0.75]
        assert steps.stored(session) == {5: (0.25, 2, 5), 6: (0.75, 2, 3)}
        assert session.run(known).tolist() == [[5, 3], [1, 0]]


def test_a_key_whose_row_is_set_waits_no_more(graph, tmp_path):
    """A checkpoint had it twice: what the filter had counted replaced the row's history."""
    steps = Steps(get_variable(filter_option=EXACT))
    set_row = write_rows(steps.variable, tf.constant([5], tf.int64), [[4.0, 4.0]])
    known, waiting = steps.variable.get_frequency([5, 6]), steps.variable.waiting_keys()
    saver = tf1.train.Saver()
    with initialized_session() as session:
        steps.train(session, 5, 6)
        session.run(set_row)
        assert session.run(known).tolist() == [3, 1]
        assert session.run(waiting)[0].tolist() == [6]
        saver.restore(session, saver.save(session, str(tmp_path / "model")))
        assert session.run(known).tolist() == [3, 1]
        assert session.run(waiting)[0].tolist() == [6]


@pytest.mark.parametrize("freq", [0, 1])
def test_a_filter_that_lets_all_in(graph, freq):
    steps = Steps(get_variable(filter_option=CounterFilter(freq)))
    with initialized_session() as session:
        assert steps.train(session, 5, 5) == [1.0, 1.0]
        keys, rows, versions, freqs = session.run(steps.contents)
    assert keys.tolist() == [5] and rows[0, 0] == 0.5
    assert versions.tolist() == [0][:freq] and freqs.tolist() == [2][:freq]


def test_gradients_of_keys_without_a_row_are_left_out(graph):
    variable = get_variable(filter_option=EXACT)
    ids = tf.constant([5, 6, 6, 6])
    rows = tf.nn.embedding_lookup(variable, ids)
    (gradient,) = tf1.gradients(tf.reduce_sum(rows**2), [variable])
    norm = tf.linalg.global_norm([gradient])
    with initialized_session() as session:
        assert session.run(norm) == pytest.approx(18.0 * 2**0.5)  # of key 6, which is admitted
        values, row_ids = session.run([gradient.values, gradient.indices])
    assert row_ids.tolist() == [0] and values.tolist() == [[6.0, 6.0]]


def row_optimizers(step):
    return {
        "sgd": stock_optimizers.GradientDescentOptimizer(0.1),
        "momentum": stock_optimizers.MomentumOptimizer(0.1, 0.9),
        "adagrad": stock_optimizers.AdagradOptimizer(0.1),
        "ftrl": stock_optimizers.FtrlOptimizer(0.1, l1_regularization_strength=0.5),
        "decay": AdagradDecayOptimizer(0.1, step),
        "rmsprop": AdamAsyncOptimizer(0.1, apply_sparse_rmsprop=True),
    }


@pytest.mark.parametrize("key_filter", [EXACT, BLOOM], ids=["CounterFilter", "CBFFilter"])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("name", ["sgd", "momentum", "adagrad", "ftrl", "decay", "rmsprop"])
def test_the_step_that_admits_a_key_trains_it(graph, name, times, key_filter):
    """In one lookup or in two of the same key: then its row goes on as one without a filter."""
    optimizer = row_optimizers(tf1.train.get_or_create_global_step())[name]
    filtered, plain = get_variable(filter_option=key_filter), get_variable(name="p")
    reads = [
        [tf.nn.embedding_lookup(table, tf.constant([5], tf.int64)) for _ in range(times)]
        for table in (filtered, plain)
    ]
    train, train_plain = (optimizer.minimize(tf.add_n(rows) * 2.0) for rows in reads)
    with initialized_session() as session:
        waits = -(-3 // times)
        read = [session.run([reads[0][0][0, 0], train])[0] for _ in range(5)]
        expected = [session.run([reads[1][0][0, 0], train_plain])[0] for _ in range(5)]
        assert read[:waits] == [NO_PERMISSION] * waits
        np.testing.assert_allclose(read[waits:], expected[1 : 6 - waits], rtol=1e-6)
        if (name, times) == ("sgd", 1):
            np.testing.assert_allclose(read[3:], [0.8, 0.6], rtol=1e-6)


@contextlib.contextmanager
def control_flow(is_newer):
    """That of scripts for TensorFlow 1, or the newer one."""
    was_newer = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if is_newer else tf1.disable_control_flow_v2)()
    yield
    (tf1.enable_control_flow_v2 if was_newer else tf1.disable_control_flow_v2)()


@pytest.fixture
def older_control_flow():
    with control_flow(is_newer=False):
        yield


@pytest.mark.parametrize("key_filter", [None, CounterFilter(2)], ids=["all", "filtered"])
@pytest.mark.parametrize("is_clipped", [False, True])
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_loop_trains_its_keys_alone(graph, older_control_flow, key_filter, is_clipped, is_nested):
    """TensorFlow begins the gradient of a loop with zeros for row 0, which may be another key's."""
    variable = get_variable(filter_option=key_filter)
    sevens, ids = tf.constant([7, 7], tf.int64), tf.constant([5, 5], tf.int64)
    first, found = (tf.nn.embedding_lookup(variable, each) for each in (sevens, ids))

    def looked_up(number, total):
        rows = tf.nn.embedding_lookup(variable, ids + number)  # keys 5 and 6
        return number + 1, total + tf.reduce_sum(rows)

    def looked_up_in_a_loop(number, total):
        return tf.while_loop(lambda inner, _: inner <= number, looked_up, [number, total])

    body = looked_up_in_a_loop if is_nested else looked_up
    _, loop = tf.while_loop(lambda number, _: number < 2, body, [tf.constant(0, tf.int64), 0.0])
    optimizer = stock_optimizers.MomentumOptimizer(0.1, 0.9)

    def step_of(loss):
        pairs = optimizer.compute_gradients(loss, [variable])
        clipped = [(tf.clip_by_norm(gradient, 1e9), v) for gradient, v in pairs]
        return optimizer.apply_gradients(clipped if is_clipped else pairs)

    in_loop = step_of(loop)
    steps = [step_of(tf.reduce_sum(first)), in_loop, in_loop, step_of(loop + tf.reduce_sum(found))]
    with initialized_session() as session:
        seen = []
        for step in steps:
            session.run(step)
            keys, rows, *_ = session.run(variable.export())
            seen.append({key: round(float(row[0]), 4) for key, row in zip(keys, rows)})
    # Of key 5: gradients 2, 2 and 4 and so momenta of 2, 3.8 and 7.42.
    assert seen == [
        {7: 0.8},
        {7: 0.8, 5: 0.8, 6: 0.8},
        {5: 0.42, 6: 0.42, 7: 0.8},
        {5: -0.322, 6: -0.122, 7: 0.8},
    ]


@pytest.mark.parametrize("in_function", [False, True], ids=["newer", "function"])
def test_loops_whose_gradient_is_dense_say_the_way_out(graph, older_control_flow, in_function):
    """Their lookup before the loop trains; DeepRec's TensorFlow has no such updates either."""
    variable = get_variable()
    ids = tf.constant([5, 6], tf.int64)

    def loop(rows_of):
        return tf.while_loop(
            lambda i, _: i < 2,
            lambda i, total: (i + 1, total + tf.reduce_sum(rows_of(i))),
            [0, 0.0],
        )[1]

    def looked_up(i):
        return tf.nn.embedding_lookup(variable, ids[i])

    optimizer = stock_optimizers.AdagradOptimizer(0.1)
    with control_flow(is_newer=not in_function):
        with pytest.raises(NotImplementedError, match="look the keys up before the loop"):
            optimizer.minimize((tf.function(loop) if in_function else loop)(looked_up))
        rows = tf.nn.embedding_lookup(variable, ids)
        train = optimizer.minimize(loop(lambda i: rows[i]))
    train = [train, optimizer.minimize(loop(looked_up))]
    with initialized_session() as session:
        for step in train:
            before = session.run(rows)
            session.run(step)
            assert (session.run(rows) < before).all()


def test_lookups_of_a_step_admit_together_in_any_order(graph):
    """Counts of all lookups decide; clipping sees all gradients, as in DeepRec."""
    variable = get_variable(filter_option=CounterFilter(4))
    step = tf1.train.get_or_create_global_step()
    ids = [tf.constant(x, tf.int64) for x in ([5, 6, 8], [6, 5, 5, 7], [5, 6, 6])]
    rows = [tf.nn.embedding_lookup(variable, each) for each in ids]
    loss = tf.add_n([tf.reduce_sum(x) * 10.0**n for n, x in enumerate(rows)])
    optimizer = stock_optimizers.GradientDescentOptimizer(0.5)
    (gradient,) = tf1.gradients(loss, [variable])
    (clipped,), norm = tf.clip_by_global_norm([gradient], 1e9)
    train = optimizer.apply_gradients([(clipped, variable)], step)
    with initialized_session() as session:
        session.run(train)
        exported = dict(zip(*(x.tolist() for x in session.run(variable.export()[:2]))))
        assert exported == {5: [-59.5] * 2, 6: [-104.5] * 2}
        assert session.run(variable.get_frequency([5, 6, 7, 8])).tolist() == [4, 4, 1, 1]
        squares = sum(x**2 for x in (1, 1, 1, 10, 20, 10, 100, 200))
        assert session.run(norm) == pytest.approx((2 * squares) ** 0.5)
        with pytest.raises(ValueError, match="may not be fed"):  # another step's ids
            session.run(train, {gradient.indices: [-2, -3, 0], gradient.values: np.ones([3, 2])})


class OwnOptimizer(tf1.train.Optimizer):
    def __init__(self):
        super().__init__(False, "Own")

    def _resource_apply_sparse(self, grad, handle, indices):
        return tf1.scatter_sub(handle, indices, 0.25 * grad)


@pytest.mark.parametrize(
    "make", [OwnOptimizer, lambda: tf1.train.GradientDescentOptimizer(0.25)], ids=["own", "stock"]
)
def test_other_optimizers_take_gradients_of_rows_alone(graph, make):
    variable = get_variable(filter_option=EXACT)
    rows = tf.nn.embedding_lookup(variable, tf.constant([5, 6], tf.int64))
    (gradient,) = gradients(tf.reduce_sum(rows), [variable])
    (clipped,), _ = tf.clip_by_global_norm([gradient], 1e9)
    train = make().apply_gradients([(clipped, variable)])
    with initialized_session() as session:
        read = [session.run([rows[0, 0], train])[0] for _ in range(5)]
    assert read == [NO_PERMISSION] * 3 + [0.75, 0.5]


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
        np.testing.assert_allclose(session.run(found[0])[:, 0], [0.45, 0.0, -6.0], rtol=1e-6)
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
        assert first_ids.tolist() == second_ids.tolist() == [0]
        assert session.run(variable.get_frequency([5, 6])).tolist() == [6, 2]
        rows, first_ids, second_ids = session.run([second, gradient.indices, later.indices])
        assert rows[:, 0].tolist() == [1.0, 1.0, 1.0, NO_PERMISSION]
        assert first_ids.tolist() == second_ids.tolist() == [0, 1]


def test_rows_of_an_initializer_that_is_run(graph):
    """What a key starts as is that of its default row, also when it gets its row late."""
    init = InitializerOption(default_value_dim=4, default_value_no_permission=NO_PERMISSION)
    values = tf1.constant_initializer(np.arange(8, dtype=np.float32).reshape(4, 2))
    steps = Steps(get_variable(values, init=init, filter_option=CounterFilter(2)))
    with initialized_session() as session:
        steps.train(session, 5, 6, 6, 9)
        assert {k: v[0] for k, v in steps.stored(session).items()} == {6: 3.5}
        steps.train(session, 9, 5, 3)
        assert {k: v[0] for k, v in steps.stored(session).items()} == {6: 3.5, 5: 1.75, 9: 1.75}


def test_a_key_without_a_row_costs_no_row(graph):
    steps = Steps(get_variable(filter_option=EXACT))
    with initialized_session() as session:
        for first in range(0, 40_000, 2000):
            steps.train(session, *range(first, first + 2000))
        assert session.run(steps.variable.total_count()).tolist() == [0, 2]
        assert steps.train(session, -1, -1, -1) and steps.stored(session).keys() == {-1}
        assert session.run(found_rows(steps.variable, [-1])).tolist() == [0]  # the first row
        assert len(session.run(steps.variable.waiting_keys())[0]) == 40_000


def test_what_is_recorded_by_the_environment(graph, monkeypatch):
    plain = get_variable(name="p")
    with pytest.raises(ValueError, match="get_frequency|key_history: the table p keeps no history"):
        plain.get_frequency([1])
    assert plain.before_save() is None and plain.steps_to_live is None
    monkeypatch.setenv("TF_RECORD_VERSION", "1")
    steps = Steps(get_variable())
    assert steps.variable.before_save() is None
    with initialized_session() as session:
        for ids in ([5], [6], [5]):
            steps.train(session, *ids)
        assert steps.stored(session) == {5: (0.5, 2, 2), 6: (0.75, 1, 1)}
        assert session.run(steps.variable.get_version([5, 9])).tolist() == [2, 0]


class Model:
    """What a variable with CounterFilter(3) and GlobalStepEvict(2) holds after Steps."""

    def __init__(self):
        self.stored, self.waiting, self.step = {}, {}, 0  # {key: [value, version, freq]}

    def train(self, ids):
        read = [self.stored[key][0] if key in self.stored else NO_PERMISSION for key in ids]
        for key in ids:
            known = self.stored.get(key) or self.waiting.setdefault(key, [1.0, 0, 0])
            known[1:] = [self.step, known[2] + 1]
        for key in ids:
            known = self.stored.get(key) or self.waiting[key]
            known[0] -= 0.25 if known[2] >= 3 else 0.0
        admitted = {key: known for key, known in self.waiting.items() if known[2] >= 3}
        self.stored.update(admitted)
        self.waiting = {k: known for k, known in self.waiting.items() if k not in admitted}
        self.step += 1
        return read

    def evict(self):
        self.stored, self.waiting = (
            {k: known for k, known in keys.items() if known[1] >= self.step - 2}
            for keys in (self.stored, self.waiting)
        )


@pytest.mark.parametrize("seed", range(3))
def test_random_steps_follow_the_model(graph, seed):
    rng, model = np.random.default_rng(seed), Model()
    steps = Steps(get_variable(filter_option=EXACT, evict_option=GlobalStepEvict(2)))
    evict, waiting = steps.variable.before_save(), steps.variable.waiting_keys()
    with initialized_session() as session:
        for _ in range(40):
            ids = (rng.geometric(0.05, rng.integers(0, 40)) - 5).tolist()
            assert steps.train(session, *ids) == model.train(ids)
            if rng.random() < 0.3:
                session.run(evict)
                model.evict()
            assert steps.stored(session) == {key: tuple(k) for key, k in model.stored.items()}
            known = {key: (step, freq) for key, freq, step in zip(*session.run(waiting))}
            assert known == {key: tuple(k[1:]) for key, k in model.waiting.items()}
