# SPDX-License-Identifier: Apache-2.0
"""Optimizers that DeepRec has beside TF1's: their numbers, their slots, what they refuse."""

import time

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.optimizer_rules import (
    ordinary_updates,
    stock_optimizers,
    weight_decay_optimizers,
)
from sok_compat.deeprec.optimizer_rules import train_optimizers as optimizers
from sok_compat.deeprec.variables.embedding_variable import EV_INIT_SLOT_OPS
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from tests.support.deeprec.deeprec_optimizers import (
    CASES,
    AdagradDecay,
    AdamW,
    assert_follows_formula,
)
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
train = tf1.train


@pytest.mark.parametrize(
    "case, use_locking", [*((case, False) for case in CASES), ("AdagradDecay", True)]
)
def test_equals_its_formula(case, use_locking):
    assert_follows_formula(case, use_locking)


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("AdamAsync")])
def test_equals_its_formula_where_ordinary_variables_may_be_on_a_gpu(monkeypatch, case):
    monkeypatch.setattr(ordinary_updates, "has_gpu", lambda: True)
    assert_follows_formula(case)


@pytest.mark.parametrize("make, slots, scalars", [
    (lambda step: optimizers.AdamAsyncOptimizer(), ["m", "v"],
     {"beta1_power": "_2", "beta2_power": "_3"}),
    (lambda step: optimizers.AdagradDecayOptimizer(0.1, step), ["accumulator"],
     {"decays": "/decays"}),
    (lambda step: optimizers.AdagradDecayOptimizerV2(0.1, step), ["accumulator"],
     {"decays": "/decays"}),
    (lambda step: optimizers.AdamWOptimizer(0.1), ["m", "v"], {}),
])  # fmt: skip
def test_slots(graph, make, slots, scalars):
    variable = get_embedding_variable("v", 2)
    optimizer = make(train.get_or_create_global_step())
    optimizer.minimize(tf.reduce_sum(tf.nn.embedding_lookup(variable, [1])), var_list=[variable])
    name = optimizer.get_name()
    planes = [f"v/{name}", f"v/{name}_1"][: len(slots)]
    assert [slot.op.name for slot in variable.slots] == planes
    assert [optimizer.get_slot(variable, slot).op.name for slot in slots] == planes
    of_variable = [optimizer.get_slot(variable, slot) for slot in scalars]
    assert [slot.op.name for slot in of_variable] == [f"v/{name}{end}" for end in scalars.values()]
    assert all(slot.shape == [] for slot in of_variable)
    assert {*variable.slots, *of_variable} <= set(optimizer.variables())
    assert len(tf1.get_collection(EV_INIT_SLOT_OPS)) == len(slots)


@pytest.mark.parametrize("case", ["AdamAsync", "AdagradDecay", "Ftrl"])
def test_training_goes_on_from_a_checkpoint(tmp_path, case):
    """Of its scalars, too."""
    path, gradients = str(tmp_path / "model"), np.random.default_rng(1).normal(size=[6, 4])

    def build():
        variable = get_embedding_variable("v", 2, initializer=tf1.ones_initializer())
        of_step, global_step = tf1.placeholder(tf.float32, [4]), train.get_or_create_global_step()
        rows = tf.nn.embedding_lookup(variable, [1, 5])
        step = CASES[case][0](global_step, False).minimize(
            tf.reduce_sum(rows * tf.reshape(of_step, [2, 2])), global_step, var_list=[variable]
        )
        return rows, lambda session, g: session.run(step, {of_step: g}), train.Saver()

    with tf.Graph().as_default():
        rows, run_step, saver = build()
        with initialized_session() as session:
            for number, gradient in enumerate(gradients):
                if number == 3:
                    saver.save(session, path)
                run_step(session, gradient)
            expected = session.run(rows)
    with tf.Graph().as_default(), tf1.Session() as session:
        rows, run_step, saver = build()
        saver.restore(session, path)
        for gradient in gradients[3:]:
            run_step(session, gradient)
        np.testing.assert_array_equal(session.run(rows), expected)


@pytest.mark.parametrize("name", ["AdagradDecayOptimizer", "AdagradDecayOptimizerV2"])
def test_the_second_step_of_a_period_of_two_decays_first(graph, name):
    """With DeepRec's numbers, of its own unit test."""
    step = train.get_or_create_global_step()
    variable = get_embedding_variable("v", 3, initializer=tf1.ones_initializer())
    rows = tf.nn.embedding_lookup(variable, tf.constant([0, 1, 2, 5, 6, 7], tf.int64))
    loss = 2.0 * tf.reduce_sum(rows)
    optimizer = getattr(optimizers, name)(0.1, step, accumulator_decay_step=2)
    update = optimizer.minimize(loss, step)
    with initialized_session() as session:
        losses = [session.run([loss, update])[0] for _ in range(5)]
    np.testing.assert_allclose(losses, [36.0, 32.444176, 29.847788, 27.74195, 25.852505], 1e-6)


def test_l1_of_ftrl_goes_by_the_norm_of_a_row(graph):
    """With DeepRec's numbers, of its own unit test of L2 eviction."""
    variable = get_embedding_variable("v", 3, initializer=tf1.ones_initializer())
    rows = tf.nn.embedding_lookup(variable, tf.constant([0, 0, 0, 1, 1, 2], tf.int64))
    update = optimizers.FtrlOptimizer(
        0.1, l1_regularization_strength=2.0, l2_regularization_strength=1e-5
    ).minimize(2.0 * tf.reduce_sum(rows))
    with initialized_session() as session:
        session.run(update)
        found = session.run(tf.gather(rows, [0, 3]))
    np.testing.assert_allclose(found[:, 1], [0.8282884, 0.7927219], 1e-6)


def test_variables_that_do_not_decay(graph):
    """decay_var_list of AdamW, for minimize and for apply_gradients, each time anew."""
    first = np.array([[1.0, -2.0], [3.0, 4.0]], np.float32)
    variables = [
        get_embedding_variable(name, 2, initializer=tf1.constant_initializer(2.0)) for name in "ab"
    ] + [tf1.get_variable(name, initializer=first, use_resource=True) for name in "cd"]
    decayed = variables[::2]
    loss = tf.add_n([tf.reduce_sum(tf.nn.embedding_lookup(v, [0, 1])) for v in variables])
    optimizer = optimizers.AdamWOptimizer(0.05, 0.1, 0.8, 0.95, 1e-3)
    steps = [
        optimizer.minimize(loss, var_list=variables, decay_var_list=decayed),
        optimizer.apply_gradients(
            optimizer.compute_gradients(loss, variables), None, None, decayed
        ),
        optimizer.minimize(loss, var_list=variables),
    ]
    read = [tf.nn.embedding_lookup(variable, [0, 1]) for variable in variables]
    with initialized_session() as session:
        expected = [AdamW(rows) for rows in session.run(read)]
        for step, decays in zip(steps, ([1, 0, 1, 0], [1, 0, 1, 0], [1, 1, 1, 1])):
            session.run(step)
            for one, does_decay in zip(expected, decays):
                one.weight_decay = 0.05 * does_decay
                one.step(np.ones([2, 2]), np.array([True, True]), None)
            for rows, one in zip(session.run(read), expected):
                np.testing.assert_allclose(rows, one.rows, rtol=1e-5)


def test_any_optimizer_decays(graph):
    """Ordinary variables with any optimizer, embedding variables with Adam."""
    with_decay = weight_decay_optimizers.extend_with_decoupled_weight_decay
    dense, other = (tf1.get_variable(name, initializer=[1.0, -2.0]) for name in "ab")
    table = get_embedding_variable("v", 2, initializer=tf1.ones_initializer())
    loss = tf.reduce_sum(dense) + tf.reduce_sum(tf.nn.embedding_lookup(other, [1]))
    stock = with_decay(train.MomentumOptimizer)(0.1, learning_rate=0.5, momentum=0.9)
    step = stock.minimize(loss, decay_var_list=[dense])
    again = stock.minimize(loss)
    rows = tf.nn.embedding_lookup(table, [3])
    steps = [
        make(0.1, learning_rate=0.5).minimize(tf.reduce_sum(rows), var_list=[table])
        for make in (with_decay(stock_optimizers.AdamOptimizer), optimizers.AdamWOptimizer)
    ]
    for base in (train.MomentumOptimizer, stock_optimizers.MomentumOptimizer):
        with pytest.raises(
            NotImplementedError, match="cannot decay .* v:0, .*: use tf.train.AdamW"
        ):
            with_decay(base)(0.1, 0.5, 0.9).minimize(tf.reduce_sum(rows), var_list=[table])
    with initialized_session() as session:
        session.run(step)
        np.testing.assert_allclose(session.run(dense), [0.9 - 0.5, -1.8 - 0.5], rtol=1e-6)
        np.testing.assert_allclose(session.run(other), [1, -2.5], rtol=1e-6)
        session.run(again)
        np.testing.assert_allclose(session.run(dense), [0.36 - 0.95, -2.07 - 0.95], rtol=1e-6)
        np.testing.assert_allclose(session.run(other), [1, -2.25 - 0.95], rtol=1e-6)
        moved = []
        for of_table in steps:
            before = session.run(rows)
            session.run(of_table)
            moved.append(session.run(rows) / before)
        assert np.all(np.array(moved[0]) < 0.5)
        np.testing.assert_allclose(0.9 * 1 - 0.5, moved[0][0, 0], rtol=1e-4)


def test_a_variable_without_gradients_catches_up(graph):
    """Its accumulators alone decay then: others have decayed in this period."""
    ones = np.ones([2, 2], np.float32)
    variables = [
        get_embedding_variable(name, 2, initializer=tf1.ones_initializer()) for name in "ab"
    ] + [tf1.get_variable(name, initializer=ones, use_resource=True) for name in "cd"]
    global_step = tf1.placeholder(tf.int64, [])
    optimizer = optimizers.AdagradDecayOptimizer(0.1, global_step, 0.3, 2, 0.5)
    rows = [tf.nn.embedding_lookup(variable, [0, 1]) for variable in variables]

    def step_of(places):
        loss = tf.add_n([tf.reduce_sum(rows[place]) for place in places])
        return optimizer.minimize(loss, var_list=[variables[place] for place in places])

    everything, some = (0, 1, 2, 3), (0, 2)
    steps = {places: step_of(places) for places in (everything, some)}
    expected = [AdagradDecay(ones) for _ in variables]
    with initialized_session() as session:
        for number, places in [
            (0, everything),
            (1, everything),
            (2, some),
            (3, everything),
            (9, some),
            (9, everything),
        ]:
            session.run(steps[places], {global_step: number})
            for place in places:
                expected[place].step(ones, np.array([True, True]), number)
        for seen, model in zip(session.run(rows), expected):
            np.testing.assert_allclose(seen, model.rows, rtol=1e-5)


def test_weights_decay_after_their_gradient(graph):
    """A loss that is computed late in its step has the weights from before it."""
    dense = tf1.get_variable("dense", initializer=[2.0, 3.0], use_resource=True)
    with tf.control_dependencies([tf1.py_func(lambda: time.sleep(0.2), [], [])]):
        loss = tf.reduce_sum(dense.read_value() ** 2)
    step = optimizers.AdamWOptimizer(0.5, 0.1).minimize(loss)
    with initialized_session() as session:
        assert session.run([loss, step])[0] == 13.0


@pytest.mark.parametrize("arguments, message", [
    (dict(global_step=None), "AdagradDecay needs global_step, got None"),
    (dict(initial_accumulator_value=0.0), "initial_accumulator_value must be positive: 0.0"),
    (dict(accumulator_decay_step=0), "accumulator_decay_step must be at least 1, got 0"),
    (dict(accumulator_decay_rate=0.0), "must be above 0 and at most 1, got 0.0"),
    (dict(accumulator_decay_rate=1.5), "must be above 0 and at most 1, got 1.5"),
])  # fmt: skip
def test_numbers_out_of_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        optimizers.AdagradDecayOptimizer(**{"learning_rate": 0.1, "global_step": 0, **arguments})


def test_dense_gradients_are_refused(graph):
    variable = get_embedding_variable("v", 2)
    for name in CASES:
        optimizer = CASES[name][0](tf.constant(0), False)
        with pytest.raises(NotImplementedError, match="got a dense one"):
            optimizer.apply_gradients([(tf.ones([1, 2]), variable)])
