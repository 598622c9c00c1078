# SPDX-License-Identifier: Apache-2.0
"""A full variable evicts keys between a lookup and its update, two steps in eager mode."""

import pytest
import tensorflow as tf

MOST = 4


@pytest.fixture
def full(sok):
    return sok.DynamicVariable(2, "ones", var_type="hybrid", init_capacity=MOST, max_capacity=MOST)


def look_up(sok, variable, keys, **options):
    bags = tf.RaggedTensor.from_row_lengths(tf.constant(keys, tf.int64), [1] * len(keys))
    return sok.lookup_sparse(variable, bags, combiners="sum", **options)


def rows_of(sok, variable):
    keys, rows = sok.export(variable)
    return dict(zip(keys.numpy().tolist(), rows.numpy()[:, 0].tolist()))


def test_an_update_of_evicted_keys_moves_no_other_key(sok, full):
    with tf.GradientTape() as tape:
        read = [look_up(sok, full, keys) for keys in ([1, 2, 3], [4, 5, 6], [7, 8])]
        loss = tf.reduce_sum(tf.concat(read, 0))
    gradient = tape.gradient(loss, full)
    sok.SGD(0.25).apply_gradients([(gradient, full)])
    assert rows_of(sok, full) == {5: 0.75, 6: 0.75, 7: 0.75, 8: 0.75}


@pytest.mark.parametrize("options", [{}, {"use_low_frequency_filter": True}], ids=["", "filter"])
@pytest.mark.parametrize("is_function", [False, True], ids=["eager", "function"])
def test_gradients_applied_later_move_no_other_key(sok, is_function, options):
    full = sok.DynamicVariable(
        2, "ones", var_type="hybrid", init_capacity=MOST, max_capacity=MOST, filter_ratio=0.999
    )
    read = lambda keys: look_up(sok, full, keys, **options)  # noqa: E731
    read = tf.function(read) if is_function else read
    gradients = []
    for keys in ([1, 2, 3], [3, 4, 5], [6, 7, 8], [9, 8, 10]):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(read(keys))
        gradients.append(tape.gradient(loss, full))
    for gradient in gradients:
        sok.OptimizerWrapper(tf.compat.v1.train.GradientDescentOptimizer(0.25)).apply_gradients(
            [(gradient, full)]
        )
    assert rows_of(sok, full) == {7: 0.75, 8: 0.5, 9: 0.75, 10: 0.75}


def test_rows_are_reused_once_their_gradients_are_gone(sok, full):
    optimizer = sok.SGD(0.25)
    for step in range(40):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(look_up(sok, full, [3 * step, 3 * step + 1, 3 * step + 2]))
        gradient = tape.gradient(loss, full)
        optimizer.apply_gradients([(gradient, full)])
    assert int(tf.reduce_max(gradient.indices)) < 4 * MOST
