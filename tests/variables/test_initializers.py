# SPDX-License-Identifier: Apache-2.0
"""`embedding_initializer`: every form of it, and the distribution of first values it gives."""

import math

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from tests.support.cases.layer_cases import LayerCase
from tests.support.sessions import initialized_session

CAPACITY = 3000
DIM = 20
tf1 = tf.compat.v1
initializers = keras.initializers
TRUNCATED = 0.87962566103423978  # deviation of a normal cut at two standard deviations

# (initializer, expected mean, deviation, least, greatest)
GLOROT_UNIFORM = math.sqrt(6 / (CAPACITY + DIM))
INFINITY = math.inf


def uniform(low, high):
    return (low + high) / 2, (high - low) / math.sqrt(12), low, high


def normal(mean, deviation):
    return mean, deviation, -INFINITY, INFINITY


def truncated(mean, deviation):
    return mean, deviation * TRUNCATED, mean - 2 * deviation, mean + 2 * deviation


def scaled_truncated(variance):
    """Keras's VarianceScaling: the deviation is that of the truncated distribution."""
    return truncated(0, math.sqrt(variance) / TRUNCATED)


DISTRIBUTIONS = {
    "none": (None, uniform(-0.05, 0.05)),
    "'uniform'": ("uniform", uniform(-0.05, 0.05)),
    "'normal'": ("normal", normal(0, 0.05)),
    "'random_uniform'": ("random_uniform", uniform(-0.05, 0.05)),
    "'truncated_normal'": ("truncated_normal", truncated(0, 0.05)),
    "'glorot_uniform'": ("glorot_uniform", uniform(-GLOROT_UNIFORM, GLOROT_UNIFORM)),
    "'GlorotNormal'": ("GlorotNormal", scaled_truncated(2 / (CAPACITY + DIM))),
    "'he_normal'": ("he_normal", scaled_truncated(2 / CAPACITY)),
    "class": (initializers.RandomUniform, uniform(-0.05, 0.05)),
    "RandomUniform": (initializers.RandomUniform(-1, 3), uniform(-1, 3)),
    "RandomNormal": (initializers.RandomNormal(2.0, 0.5, seed=5), normal(2, 0.5)),
    "TruncatedNormal": (initializers.TruncatedNormal(1.0, 0.5), truncated(1, 0.5)),
    "HeUniform": (
        initializers.HeUniform(),
        uniform(-math.sqrt(6 / CAPACITY), math.sqrt(6 / CAPACITY)),
    ),
    "LecunNormal": (initializers.LecunNormal(), scaled_truncated(1 / CAPACITY)),
    "VarianceScaling": (
        initializers.VarianceScaling(3.0, "fan_out", "untruncated_normal"),
        normal(0, math.sqrt(3 / DIM)),
    ),
    "tf1-random_uniform": (tf1.random_uniform_initializer(-2, 5, seed=1), uniform(-2, 5)),
    "tf1-random_uniform-default": (tf1.random_uniform_initializer(), uniform(0, 1)),
    "tf1-random_normal": (tf1.random_normal_initializer(1, 3), normal(1, 3)),
    "tf1-truncated_normal": (tf1.truncated_normal_initializer(0, 2), truncated(0, 2)),
    "tf1-glorot_uniform": (
        tf1.glorot_uniform_initializer(),
        uniform(-GLOROT_UNIFORM, GLOROT_UNIFORM),
    ),
    "tf1-glorot_normal": (tf1.glorot_normal_initializer(), scaled_truncated(2 / (CAPACITY + DIM))),
    "tf1-variance_scaling": (
        tf1.variance_scaling_initializer(2.0, "fan_avg", "uniform"),
        uniform(-math.sqrt(12 / (CAPACITY + DIM)), math.sqrt(12 / (CAPACITY + DIM))),
    ),
    "tf1-keras-uniform": (tf1.keras.initializers.RandomUniform(0, 2), uniform(0, 2)),
}

CONSTANTS = {
    "'zeros'": ("zeros", 0.0),
    "'ones'": ("ones", 1.0),
    "Zeros": (initializers.Zeros(), 0.0),
    "Constant": (initializers.Constant(-2.5), -2.5),
    "tf1-zeros": (tf1.zeros_initializer(), 0.0),
    "tf1-ones": (tf1.ones_initializer, 1.0),
    "tf1-constant": (tf1.constant_initializer(7), 7.0),
    "tf2-constant": (tf.constant_initializer(0.25), 0.25),
    "one-number-array": (tf1.constant_initializer(np.float32(3)), 3.0),
}


def first_rows(initializer, keys, use_hashtable=True, capacity=CAPACITY, dim=DIM):
    case = LayerCase("dynamic", use_hashtable, "int64", dim)
    layer = case.make_layer(capacity, embedding_initializer=initializer)
    output = layer(tf.constant(keys, tf.int64))
    with initialized_session() as session:
        return session.run(output)


@pytest.mark.parametrize("initializer, expected", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
@pytest.mark.parametrize("use_hashtable", [True, False], ids=["hash", "direct"])
def test_distribution(sok, initializer, expected, use_hashtable):
    mean, deviation, least, greatest = expected
    rows = first_rows(initializer, np.arange(CAPACITY), use_hashtable).astype(np.float64)
    count = rows.size
    assert abs(rows.mean() - mean) < 5 * deviation / math.sqrt(count)
    assert rows.std() == pytest.approx(deviation, rel=5 / math.sqrt(count))
    assert least <= rows.min() and rows.max() <= greatest
    if math.isfinite(greatest):
        margin = 0.01 * (greatest - least)
        assert rows.min() < least + margin and rows.max() > greatest - margin
    assert len(np.unique(rows)) > 0.98 * count  # no two keys or columns alike


@pytest.mark.parametrize("initializer, value", CONSTANTS.values(), ids=CONSTANTS)
def test_constant(sok, initializer, value):
    rows = first_rows(initializer, [5, -3, 2**50])
    np.testing.assert_array_equal(rows, np.full([3, DIM], value))


ARRAY = np.arange(12.0).reshape(6, 2)


@pytest.mark.parametrize("use_hashtable", [True, False], ids=["hash", "direct"])
@pytest.mark.parametrize(
    "initializer",
    [tf1.constant_initializer(ARRAY), tf1.constant_initializer(ARRAY.tolist())],
    ids=["array", "list"],
)
def test_constant_array_gives_the_rows_in_order(sok, initializer, use_hashtable):
    keys = [4, 1, 1, 5]
    expected = ARRAY[[0, 1, 1, 2]] if use_hashtable else ARRAY[keys]
    rows = first_rows(initializer, keys, use_hashtable, capacity=6, dim=2)
    np.testing.assert_array_equal(rows, expected)


def test_constant_array_of_the_wrong_shape(sok):
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError, TypeError)):
        first_rows(tf1.constant_initializer(ARRAY), [1], capacity=5, dim=2)


def test_custom_callable_is_evaluated_for_new_rows_only(sok):
    calls = []

    def counted(shape, dtype=None):
        def rows(count, dim):
            calls.append((int(count), int(dim)))
            return np.full([count, dim], len(calls), np.float32)

        return tf.ensure_shape(
            tf.numpy_function(rows, [shape[0], shape[1]], tf.float32), [None, DIM]
        )

    case = LayerCase("dynamic", True, "int64", DIM)
    layer, keys = case.make_layer(embedding_initializer=counted), case.placeholder()
    output = layer(keys)
    with initialized_session() as session:
        calls.clear()
        first = session.run(output, {keys: [1, 2, 1]})
        second = session.run(output, {keys: [2, 3, 1]})
    assert calls == [(2, DIM), (1, DIM)]
    np.testing.assert_array_equal(first[:, 0], [1, 1, 1])
    np.testing.assert_array_equal(second[:, 0], [1, 2, 1])


def test_custom_callable_of_the_wrong_width(sok):
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        first_rows(lambda shape, dtype=None: tf.zeros([4, DIM + 1]), [1], capacity=4)


@pytest.mark.parametrize("use_hashtable", [True, False], ids=["hash", "direct"])
@pytest.mark.parametrize(
    "initializer",
    [initializers.Orthogonal(seed=2), tf1.orthogonal_initializer(seed=2)],
    ids=["keras", "tf1"],
)
def test_orthogonal(sok, initializer, use_hashtable):
    rows = first_rows(initializer, [2, 0, 1, 3], use_hashtable, capacity=4, dim=6)
    np.testing.assert_allclose(rows @ rows.T, np.eye(4), atol=1e-5)


@pytest.mark.parametrize("use_hashtable", [True, False], ids=["hash", "direct"])
def test_identity(sok, use_hashtable):
    rows = first_rows(initializers.Identity(2.0), [3, 1], use_hashtable, capacity=4, dim=4)
    expected = 2 * np.eye(4)[[0, 1] if use_hashtable else [3, 1]]
    np.testing.assert_array_equal(rows, expected)


def test_columns_and_keys_are_not_correlated(sok):
    rows = first_rows("normal", np.arange(CAPACITY)).astype(np.float64)
    limit = 6 / math.sqrt(CAPACITY)
    between_columns = np.corrcoef(rows.T) - np.eye(DIM)
    assert np.abs(between_columns).max() < limit
    between_neighbours = np.corrcoef(rows[:-1].ravel(), rows[1:].ravel())[0, 1]
    assert abs(between_neighbours) < limit


@pytest.mark.parametrize("convert", [tf.constant, np.asarray], ids=["tensor", "array"])
def test_function_that_gives_a_whole_table(convert):
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    with tf.Graph().as_default():
        sok.Init(global_batch_size=1)
        layer = sok.All2AllDenseEmbedding(
            3,
            4,
            1,
            1,
            dynamic_input=True,
            embedding_initializer=lambda shape, dtype=None: convert(table),
        )
        rows = layer(tf.constant([70, -5], tf.int64))
        with initialized_session() as session:
            np.testing.assert_array_equal(session.run(rows), table[:2])


def test_in_place_initializer_keeps_its_arguments_and_makes_no_rows(sok):
    settings = dict(name="random_uniform", high=0.5)
    initializer = sok.core.inplace_initializer.InPlaceInitializer(**settings)
    copy = type(initializer).deserialize(initializer.serialize())
    assert initializer.serialize() == copy.serialize() == settings
    assert (copy.name, copy.high) == ("random_uniform", 0.5)
    with pytest.raises(ValueError, match="embedding_initializer.* must be None, a name"):
        sok.All2AllDenseEmbedding(10, 4, 1, 1, embedding_initializer=initializer)


@pytest.mark.parametrize("values", [0.5, np.zeros([10, 4])], ids=["number", "array"])
def test_values_are_no_initializer(sok, values):
    with pytest.raises(ValueError, match=f"{type(values).__name__}; .*tf.constant_initializer"):
        sok.All2AllDenseEmbedding(10, 4, 1, 1, embedding_initializer=values)
