# SPDX-License-Identifier: Apache-2.0
"""Every initializer of Keras and TF1: first values are distributed as what TensorFlow draws."""

import inspect
import math

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import has_keras_2
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.tables.first_value import parse_initializer
from tests.support.seeds import set_random_seed
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
CAPACITY, DIM = 500, 40
NEED_THE_WHOLE_SHAPE = ("Identity", "Orthogonal")
NO_INITIALIZERS = {
    *("Initializer", "deserialize", "get", "serialize"),
    *("global_variables", "local_variables", "tables_initializer", "variables"),
    *("STFT", "STFTInitializer", "stft"),  # Keras 3's, for audio: asks for SciPy
}


def stock_initializers():
    """{where it is found: class or function}, each once."""
    modules = {
        "keras": keras.initializers,
        "tf1": tf1.initializers,
        "tf1.keras": tf1.keras.initializers,
    }
    found = {}
    for prefix, module in modules.items():
        for name in sorted(vars(module)):
            value = getattr(module, name)
            if name.startswith("_") or name in NO_INITIALIZERS or not callable(value):
                continue
            if not any(value is other for other in found.values()):
                found[f"{prefix}.{name}"] = value
    return found


STOCK = stock_initializers()
stock = pytest.mark.parametrize("make", STOCK.values(), ids=STOCK)


def first_rows(initializer):
    layer = sok.All2AllDenseEmbedding(
        CAPACITY, DIM, 1, 1, dynamic_input=True, embedding_initializer=initializer
    )
    output = layer(tf.range(CAPACITY, dtype=tf.int64))
    with initialized_session() as session:
        return session.run(output)


def kolmogorov_smirnov(first, second):
    """The largest distance between the distribution functions of two samples."""
    places = np.sort(np.concatenate([first, second]))
    below = [
        np.searchsorted(np.sort(sample), places, side="right") / sample.size
        for sample in (first, second)
    ]
    return np.abs(below[0] - below[1]).max()


def test_the_statistic_tells_distributions_apart():
    """What the limits below are worth: 4 % of the deviation, 4 % of it in the mean, a cut tail."""
    rng = np.random.default_rng(1)
    sample, other = rng.normal(size=[2, CAPACITY * DIM])
    limit = 2.0 * math.sqrt(2 / sample.size)
    assert kolmogorov_smirnov(sample, other) < limit
    assert kolmogorov_smirnov(sample, other + 0.06) > limit
    assert kolmogorov_smirnov(sample, other * 1.1) > limit
    assert kolmogorov_smirnov(sample, other[np.abs(other) < 2]) > limit


def test_all_are_found():
    assert len(STOCK) > 25
    assert {"keras.HeNormal", "tf1.uniform_unit_scaling", "tf1.he_uniform"} <= set(STOCK)


@stock
def test_distribution_is_tensorflows(sok, make):
    initializer = make()
    name = type(initializer).__name__
    kind = parse_initializer(initializer, [CAPACITY, DIM]).kind
    if name in NEED_THE_WHOLE_SHAPE:
        assert kind == "preset"
        return
    assert kind in ("uniform", "normal", "truncated_normal", "constant")
    set_random_seed(1)
    reference = initializer([CAPACITY, DIM], dtype=tf.float32)
    with tf1.Session() as session:
        expected = session.run(reference)
    rows = first_rows(initializer)
    if kind == "constant":
        np.testing.assert_array_equal(rows, expected)
        return
    rows, expected = rows.ravel(), expected.ravel()
    assert rows.std() == pytest.approx(expected.std(), rel=0.03)
    assert abs(rows.mean() - expected.mean()) < 0.04 * expected.std()
    assert kolmogorov_smirnov(rows, expected) < 2.0 * math.sqrt(2 / rows.size)


@stock
def test_class_instance_name_and_config_are_one(make):
    """As a class, as an instance, by its name and by its configuration."""
    instance = make()
    expected = str(parse_initializer(instance, [CAPACITY, DIM]))
    forms = [make] if inspect.isclass(make) else []
    names = [name.split(".")[1] for name, value in STOCK.items() if value is make]
    is_of_keras = getattr(keras.initializers, names[0], None) is make
    if is_of_keras and (has_keras_2 or names[0] != "Constant"):
        forms += [names[0], keras.initializers.serialize(instance)]
    for form in forms:
        assert str(parse_initializer(form, [CAPACITY, DIM])) == expected


SEEDED = {
    "keras": lambda seed: keras.initializers.RandomNormal(seed=seed),
    "keras-scaling": lambda seed: keras.initializers.HeUniform(seed=seed),
    "tf1": lambda seed: tf1.truncated_normal_initializer(seed=seed, dtype=tf.float32),
    "tf1-unit-scaling": lambda seed: tf1.uniform_unit_scaling_initializer(2.0, seed=seed),
    "tf1-function": lambda seed: tf1.initializers.lecun_normal(seed=seed),
}


@pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED)
def test_a_seed_of_its_own_takes_the_place_of_inits(make):
    def rows(seed, init_seed):
        with tf.Graph().as_default():
            sok.Init(global_batch_size=1, seed=init_seed)
            return first_rows(make(seed))

    np.testing.assert_array_equal(rows(5, init_seed=1), rows(5, init_seed=2))
    assert np.all(rows(5, init_seed=1) != rows(6, init_seed=1))
    assert np.all(rows(None, init_seed=1) != rows(None, init_seed=2))


KEYS = {
    "counted": np.arange(CAPACITY),
    "negative": -np.arange(CAPACITY) - 1,
    "high half": np.arange(CAPACITY) << 32,
    "one bit apart": np.arange(CAPACITY) ^ (1 << 62),
}
RANDOM = (None, "random_normal", "truncated_normal", "glorot_uniform")
LIMIT = 5 / math.sqrt(CAPACITY)  # of a correlation over CAPACITY pairs: five deviations


def rows_of_keys(keys, initializer, seed=1, name_scope="one"):
    with tf.Graph().as_default(), tf.name_scope(name_scope):
        sok.Init(global_batch_size=1, seed=seed)
        layer = sok.All2AllDenseEmbedding(
            CAPACITY, DIM, 1, 1, dynamic_input=True, embedding_initializer=initializer
        )
        output = layer(tf.constant(keys, tf.int64))
        with initialized_session() as session:
            return session.run(output).astype(np.float64)


@pytest.mark.parametrize("initializer", RANDOM, ids=str)
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_columns_and_neighbours_are_independent(keys, initializer):
    rows = rows_of_keys(keys, initializer)
    for moment in (1, 2):
        values = (rows - rows.mean()) ** moment
        columns = np.corrcoef(values.T) - np.eye(DIM)
        assert np.abs(columns).max() < LIMIT
        neighbours = np.corrcoef(values[:-1].ravel(), values[1:].ravel())[0, 1]
        assert abs(neighbours) < 5 / math.sqrt(values.size)


@pytest.mark.parametrize("other", [
    dict(seed=2), dict(name_scope="two"), dict(keys=KEYS["negative"]), dict(keys=KEYS["high half"]),
    dict(keys=KEYS["one bit apart"]),
], ids=lambda other: next(iter(other)))  # fmt: skip
def test_seeds_tables_and_keys_are_independent(other):
    first = rows_of_keys(**{"keys": KEYS["counted"] + 1, "initializer": "random_normal"})
    second = rows_of_keys(**{"keys": KEYS["counted"] + 1, "initializer": "random_normal", **other})
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 5 / math.sqrt(first.size)


def numpy_rows(shape, dtype=None):
    return np.full(shape, 0.5)


def partition_info_rows(shape, dtype=None, partition_info=None):
    return tf.fill(shape, tf.cast(0.5, tf.float64))


@pytest.mark.parametrize("initializer", [numpy_rows, partition_info_rows])
def test_numbers_of_another_dtype_are_cast(sok, initializer):
    np.testing.assert_array_equal(first_rows(initializer), np.full([CAPACITY, DIM], 0.5))


@pytest.mark.parametrize("initializer", ["no such name", 3, np.ones([CAPACITY, DIM])])
def test_what_is_no_initializer(sok, initializer):
    with pytest.raises(ValueError, match="initializer"):
        first_rows(initializer)
