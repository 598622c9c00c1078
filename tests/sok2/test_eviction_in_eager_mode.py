# SPDX-License-Identifier: Apache-2.0
"""Keys are evicted, or all replaced, between a lookup and its update, two steps in eager mode."""

import pytest
import tensorflow as tf

from sok_compat.tables.rows.row_generations import rows_of_gradient

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
    assert int(tf.reduce_max(rows_of_gradient(full, gradient).indices)) < 4 * MOST


@pytest.mark.parametrize("is_function", [False, True], ids=["eager", "function"])
def test_a_lookup_keeps_the_keys_of_others_in_its_call(sok, full, is_function):
    optimizer = sok.SGD(0.25)
    for key in range(1, MOST + 1):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(look_up(sok, full, [key]))
        optimizer.apply_gradients([(tape.gradient(loss, full), full)])

    def read():
        bags = [tf.ragged.constant([keys], tf.int64) for keys in ([9], [1], [2, 9])]
        return sok.lookup_sparse([full] * 3, bags, combiners=["sum"] * 3)

    rows = (tf.function(read) if is_function else read)()
    assert [row[0, 0].numpy() for row in rows] == [1.0, 0.75, 1.75]
    assert set(rows_of(sok, full)) == {1, 2, 4, 9}


def _sgd(sok):
    return sok.SGD(1.0)


def _wrapped(sok):
    return sok.OptimizerWrapper(tf.keras.optimizers.legacy.SGD(1.0))


def _keras(sok):
    del sok
    return tf.keras.optimizers.legacy.SGD(1.0)


class _ByHand:
    def apply_gradients(self, pairs):
        for gradient, variable in pairs:
            variable.scatter_sub(gradient)


@pytest.mark.parametrize("var_type, replace", [("hbm", "load"), ("hybrid", "restore")])
@pytest.mark.parametrize("gradient_comes", ["before", "after"])
@pytest.mark.parametrize(
    "make_optimizer", [_sgd, _wrapped, _keras, lambda sok: _ByHand()],
    ids=["sok.SGD", "wrapped", "legacy", "by hand"],
)  # fmt: skip
@pytest.mark.parametrize("is_function", [False, True], ids=["eager", "function"])
def test_a_gradient_of_replaced_keys(
    sok, tmp_path, var_type, replace, gradient_comes, make_optimizer, is_function
):
    first, other = (
        sok.DynamicVariable(2, "zeros", var_type=var_type, name=name) for name in ("first", "other")
    )
    look_up(sok, other, [30, 2, 3, 1])
    sok.dump(str(tmp_path), other)
    path = tf.train.Checkpoint(t=other).write(str(tmp_path / "other"))
    look_up(sok, first, [1, 2, 3])  # their rows are those of other keys in the dump
    tf.train.Checkpoint(t=other).read(tf.train.Checkpoint(t=first).write(str(tmp_path / "first")))

    def replaced():
        if replace == "load":
            sok.load(str(tmp_path), other)
        else:
            tf.train.Checkpoint(t=other).read(path)

    read = lambda keys: look_up(sok, other, keys)  # noqa: E731
    read = tf.function(read) if is_function else read
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(read([1]))
    if gradient_comes == "before":
        gradient = tape.gradient(loss, other)
        replaced()
    else:
        replaced()
        gradient = tape.gradient(loss, other)
    optimizer = make_optimizer(sok)
    with pytest.raises(tf.errors.FailedPreconditionError, match="'other.*restored, loaded"):
        optimizer.apply_gradients([(gradient, other)])
    assert set(rows_of(sok, other).values()) == {0.0}
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(read([1]))
    optimizer.apply_gradients([(tape.gradient(loss, other), other)])
    assert rows_of(sok, other) == {1: -1.0, 2: 0.0, 3: 0.0, 30: 0.0}
