# SPDX-License-Identifier: Apache-2.0
"""Lookups under tapes and in tf.functions: gradients and training equal an ordinary variable's."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.lookup import group
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.tables.slots.slot_variable import SlotVariable
from tests.support.assertions import assert_close
from tests.support.bags import sparse_tensor
from tests.support.cases.layer_cases import LayerCase

NUM_KEYS = 10
CASE = LayerCase("dynamic", True, "int64")


def table_and_plain(sok, combiner=None, capacity=NUM_KEYS):
    """(lookup in a table, lookup in a variable with the same rows, both variables)."""
    if combiner is None:
        layer = CASE.make_layer(capacity)
        layer(tf.range(NUM_KEYS, dtype=tf.int64))
    else:
        layer = sok.DistributedEmbedding(combiner, capacity, 4, 1, max_nnz=9)
        layer(sparse_tensor([[key] for key in range(NUM_KEYS)], 9))
    plain = tf.Variable(layer.embedding_variable.export()[1])

    def look_up(keys):
        if combiner is None:
            return tf.nn.embedding_lookup(plain, keys)
        return tf.nn.embedding_lookup_sparse(plain, keys, None, combiner=combiner)[:, tf.newaxis]

    return layer, look_up, layer.embedding_variable, plain


def once(lookup, keys, more):
    return tf.reduce_sum(tf.sin(lookup(keys)))


def twice(lookup, keys, more):
    return once(lookup, keys, more) * tf.reduce_sum(lookup(keys) ** 2)


def in_a_branch(lookup, keys, more):
    result = tf.reduce_sum(lookup(keys) ** 2) if more else tf.reduce_sum(lookup(keys) ** 3)
    return result


def in_a_loop(lookup, keys, more):
    total = 0.0
    for power in tf.range(3.0):
        total += tf.reduce_sum(lookup(keys) * power)
    return total


def in_a_function_of_its_own(lookup, keys, more):
    return tf.reduce_sum(tf.function(lookup)(keys) ** 2)


@pytest.mark.parametrize("as_function", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("more", [True, False])
@pytest.mark.parametrize("combiner", ["mean", None], ids=str)
@pytest.mark.parametrize("loss_of", [once, twice, in_a_branch, in_a_loop, in_a_function_of_its_own])
def test_gradients(sok, loss_of, combiner, more, as_function):
    lookups, variables = np.split(np.array(table_and_plain(sok, combiner), object), 2)
    keys = tf.constant([3, 1, 3, 0, 9, 3], tf.int64)
    if combiner is not None:
        keys = sparse_tensor([[3, 1, 3], [0], [9, 3]], 9)

    def gradient(lookup, variable, more):
        with tf.GradientTape() as tape:
            loss = loss_of(lookup, keys, more)
        return loss, tf.convert_to_tensor(tape.gradient(loss, variable))

    run = tf.function(gradient) if as_function else gradient
    (loss, actual), (plain_loss, expected) = (
        run(lookup, variable, tf.constant(more)) for lookup, variable in zip(lookups, variables)
    )
    assert_close(loss, plain_loss)
    assert_close(actual[:NUM_KEYS], expected)


@pytest.mark.parametrize("as_function", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("combiner", ["sum", "mean"])
def test_gradients_of_gradients(sok, combiner, as_function):
    layer, _, table, plain = table_and_plain(sok, combiner)
    bags = [[3, 1, 3], [0], [9, 3]]
    reduce = {"sum": tf.reduce_sum, "mean": tf.reduce_mean}[combiner]

    def of_table():
        return tf.reduce_sum(layer(sparse_tensor(bags, 9)) ** 3)

    def of_plain():
        return tf.add_n([tf.reduce_sum(reduce(tf.gather(plain, bag), axis=0) ** 3) for bag in bags])

    def penalty_gradient(loss_of, variable):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = loss_of()
            slices = inner.gradient(loss, variable)
            penalty = tf.reduce_sum(tf.convert_to_tensor(slices) ** 2)
        return tf.convert_to_tensor(outer.gradient(penalty, variable))

    run = tf.function(penalty_gradient) if as_function else penalty_gradient
    assert_close(run(of_table, table), run(of_plain, plain))


@pytest.mark.parametrize("in_scope", [False, True])
def test_a_training_loop_inside_a_function(sok, in_scope):
    layer, look_up, table, plain = table_and_plain(sok, capacity=20)
    optimizer, reference = (keras.optimizers.legacy.Adagrad(0.1) for _ in range(2))

    def update(optimizer, lookup, variable, keys):
        with tf.GradientTape() as tape:
            loss = once(lookup, keys, None)
        optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])

    @tf.function
    def train(keys, num_steps):
        for step in tf.range(num_steps):
            if in_scope:
                with sok.OptimizerScope([table]):
                    update(optimizer, layer, table, keys + step)
            else:
                update(optimizer, layer, table, keys + step)
            update(reference, look_up, plain, keys + step)

    train(tf.constant([1, 4, 1], tf.int64), tf.constant(5, tf.int64))
    assert_close(table.export()[1], plain)
    assert isinstance(optimizer.variables()[1], SlotVariable)


def test_one_trace_serves_all_batch_sizes(sok):
    layer = sok.DistributedEmbedding("sum", 100, 4, 2, max_nnz=3)

    @tf.function(input_signature=[tf.SparseTensorSpec([None, 3], tf.int64)])
    def step(keys):
        with tf.GradientTape() as tape:
            output = layer(keys)
        return output, tape.gradient(output, layer.embedding_variable)

    for num_samples in (3, 1, 0):
        output, slices = step(sparse_tensor([[7, 8, 7], [9]] * num_samples, 3))
        assert output.shape == [num_samples, 2, 4]
        assert slices.values.shape == (3 if num_samples else 0, 4)
    assert step.experimental_get_tracing_count() == 1
    assert layer.embedding_variable.num_keys() == 3


def test_a_function_makes_its_layer_and_init_once(sok):
    layers = []

    @tf.function
    def step(keys):
        if not layers:
            status = sok.Init(global_batch_size=4, seed=5)
            layers.append(CASE.make_layer())
            tf.debugging.assert_equal(status, b"OK")
        return layers[0](keys)

    first = step(tf.constant([1, 2], tf.int64))
    np.testing.assert_array_equal(
        step(tf.constant([2, 2, 1], tf.int64)), tf.gather(first, [1, 1, 0])
    )
    sok.Init(global_batch_size=4, seed=5)
    keras.backend.clear_session()
    np.testing.assert_array_equal(CASE.make_layer()(tf.constant([1, 2], tf.int64)), first)


def test_an_initializer_with_state_of_its_own(sok):
    """It is run for the keys that are new, by eager code and by functions."""
    generator = tf.random.Generator.from_seed(1)
    sizes = []

    def initializer(shape, dtype):
        sizes.append(shape)
        return generator.normal(shape, dtype=dtype)

    layer = CASE.make_layer(capacity=10**9, embedding_initializer=initializer)
    first = layer(tf.constant([5, 6, 5], tf.int64))
    np.testing.assert_array_equal(first[0], first[2])
    later = tf.function(layer)(tf.constant([6, 7], tf.int64))
    np.testing.assert_array_equal(later[0], first[1])
    assert len(np.unique(np.concatenate([first, later]))) == 3 * CASE.dim


def test_a_full_table_raises_and_stays(sok):
    layer = CASE.make_layer(capacity=2)
    before = layer(tf.constant([1, 2], tf.int64))
    for call in (layer, tf.function(layer)):
        with pytest.raises(tf.errors.ResourceExhaustedError, match="EmbeddingVariable"):
            call(tf.constant([2, 3], tf.int64))
    np.testing.assert_array_equal(layer(tf.constant([1, 2], tf.int64)), before)


def test_rows_are_found_by_key_only(sok):
    layer = CASE.make_layer()
    for read in (tf.gather, tf.nn.embedding_lookup):
        with pytest.raises(NotImplementedError, match="rows belong to keys"):
            read(layer.embedding_variable, [0])


@pytest.mark.parametrize("combiner", [None, "mean"])
def test_autograph_converts_no_lookup(sok, monkeypatch, combiner):
    """Converting all that it calls would take seconds in each process."""
    callers = []

    def noting_the_caller(*args):
        callers.append(sys._getframe(1).f_code.co_filename)
        return checked_keys(*args)

    checked_keys = group.checked_keys
    monkeypatch.setattr(group, "checked_keys", noting_the_caller)
    layer, *_ = table_and_plain(sok, combiner)
    keys = tf.constant([3], tf.int64) if combiner is None else sparse_tensor([[3]], 9)
    tf.function(lambda: layer(keys))()
    assert callers == [group.__file__] * 2  # table_and_plain has called it eagerly
