# SPDX-License-Identifier: Apache-2.0
"""What a layer gives for a batch: shapes, combiners, `training`, and what is in the table after."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.runtime.tf_versions import variable_of
from tests.support.bags import pool, sparse_tensor
from tests.support.cases.layer_cases import ALL_CASES, MAX_NNZ, SLOT_NUM, LayerCase, replace_keys
from tests.support.sessions import initialized_session

cases = pytest.mark.parametrize("case", ALL_CASES, ids=str)


def exported_rows(session, layer):
    keys, rows = session.run(layer.embedding_variable.export())
    return dict(zip(keys.tolist(), rows))


@pytest.mark.parametrize("combiner", ["sum", "Sum", "SUM", "mean", "Mean", "mEaN"])
def test_combiner_in_any_case(sok, combiner):
    bags = [[5, 5, 9], [], [7], [9, 7], [], []]
    layer = sok.DistributedEmbedding(combiner, 10, 4, slot_num=3, max_nnz=3)
    output = layer(sparse_tensor(bags, 3))
    with initialized_session() as session:
        actual = session.run(output)
        expected = pool(bags, exported_rows(session, layer), combiner.lower())
        np.testing.assert_allclose(actual, expected.reshape(2, 3, 4), rtol=1e-6)
        assert np.abs(actual).max() > 0


@pytest.mark.parametrize("combiner", ["max", "", "sqrtn", None, 1])
def test_unknown_combiner(sok, combiner):
    with pytest.raises(ValueError, match="combiner must be 'mean' or 'sum'"):
        sok.DistributedEmbedding(combiner, 10, 4, 1, 1)


@cases
def test_output_shape_and_short_batches(sok, case):
    """Init's global batch is 8; batches of any size are looked up, one row of output for each."""
    layer, inputs = case.make_layer(), case.placeholder()
    output = layer(inputs)
    inner = [SLOT_NUM] if case.is_sparse else inputs.shape[1:].as_list()
    assert output.shape.as_list() == [None, *inner, case.dim]
    rng = np.random.default_rng(0)
    keys = case.keys(rng)
    with initialized_session() as session:
        for size in (8, 3, 1, 0, 20):
            batch = case.batch(rng, size, keys)
            num_first = size * case.keys_per_sample if case.input == "dynamic" else size
            assert session.run(output, {inputs: batch}).shape == (num_first, *inner, case.dim)


DENSE_SHAPES = ([], [6], [4, 2], [4, 6], [4, 0], [4, 2, 3], [2, 2, 2, 3], [1, 1, 2, 1, 3])


@pytest.mark.parametrize("known", ["shape", "rank", "nothing"])
@pytest.mark.parametrize("dynamic_input", [False, True])
def test_dense_keys_of_any_rank(sok, dynamic_input, known):
    """Output and gradient are those of the same keys as a vector."""
    layer = sok.All2AllDenseEmbedding(100, 4, SLOT_NUM, MAX_NNZ, dynamic_input=dynamic_input)
    rng, fed = np.random.default_rng(0), {}
    shapes = [*DENSE_SHAPES, [4, 3, 3]] if dynamic_input else DENSE_SHAPES
    ran = []
    for shape, dtype in zip(shapes, itertools.cycle(["int64", "int32"])):
        static = {"shape": shape, "rank": [None] * len(shape), "nothing": None}[known]
        inputs = tf.compat.v1.placeholder(dtype, static)
        fed[inputs] = rng.integers(0, 20, shape)
        outputs = [layer(inputs), layer(tf.reshape(inputs, [-1]))]
        if known == "shape":
            assert outputs[0].shape == [*shape, 4]
        assert outputs[0].shape.rank == (None if known == "nothing" else len(shape) + 1)
        table = layer.embedding_variable
        gradients = [tf.gradients(tf.reduce_sum(x**2), table)[0] for x in outputs]
        ran.append((outputs, [tf.convert_to_tensor(x) for x in gradients]))
    with initialized_session() as session:
        for shape, (outputs, gradients) in zip(shapes, session.run(ran, fed)):
            np.testing.assert_array_equal(outputs[0], outputs[1].reshape([*shape, 4]))
            np.testing.assert_array_equal(*gradients)


@pytest.mark.parametrize("kind", ["sum", "mean", "static", "dynamic"])
def test_int32_keys_are_widened(sok, kind):
    case = LayerCase(kind, True, "int64")
    layer, wide, narrow = case.make_layer(), case.placeholder(), case.placeholder("int32")
    outputs = [layer(wide), layer(narrow)]
    batch = case.batch(np.random.default_rng(0), 8, [-(2**31), -1, 0, 5, 2**31 - 1])
    as_int32 = replace_keys(batch, lambda keys: keys.astype(np.int32))
    with initialized_session() as session:
        np.testing.assert_array_equal(*session.run(outputs, {wide: batch, narrow: as_int32}))
        assert set(exported_rows(session, layer)) <= {-(2**31), -1, 0, 5, 2**31 - 1}


def test_max_nnz_limits_keys_not_columns(sok):
    """Columns and dense_shape[1] are not looked at, as in SparseOperationKit."""
    layer = sok.DistributedEmbedding("sum", 10, 2, 1, max_nnz=2, embedding_initializer="ones")
    wide = tf.SparseTensor([[0, 5], [0, 900], [1, 3]], tf.constant([1, 2, 3], tf.int64), [2, 1000])
    with initialized_session() as session:
        assert session.run(layer(wide)).tolist() == [[[2.0, 2.0]], [[1.0, 1.0]]]


@cases
@pytest.mark.parametrize("training", [True, False, None])
def test_training_decides_on_insertion(sok, case, training):
    layer, inputs = case.make_layer(), case.placeholder()
    output = layer(inputs, training=training)
    num_keys = layer.embedding_variable.num_keys()
    rng = np.random.default_rng(0)
    batch = case.batch(rng, 8, case.keys(rng))
    keys = batch.values if case.is_sparse else batch
    with initialized_session() as session:
        session.run(output, {inputs: batch})
        inserted = 0 if training is False else len(np.unique(keys))
        assert session.run(num_keys) == inserted


@cases
def test_training_false_reads_trained_rows(sok, case):
    layer, inputs = case.make_layer(), case.placeholder()
    table = layer.embedding_variable
    trained, read = layer(inputs), layer(inputs, training=False)
    gradients = tf.gradients(tf.reduce_sum(trained), [table])
    with sok.OptimizerScope([table]):
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        train = optimizer.apply_gradients(zip(gradients, [table]))
    rng = np.random.default_rng(1)
    batch = case.batch(rng, 4, case.keys(rng))
    with initialized_session() as session:
        before = session.run(read, {inputs: batch})
        session.run(train, {inputs: batch})
        after = session.run([trained, read], {inputs: batch})
        np.testing.assert_array_equal(*after)
        has_keys = np.abs(before).max(axis=-1) > 0
        assert np.all((after[0] - before)[has_keys] < -0.3)


def test_gradient_of_training_false_skips_unknown_keys(sok):
    layer = sok.All2AllDenseEmbedding(10, 2, 1, 1, dynamic_input=True)
    insert = layer(tf.constant([5, 6], tf.int64))
    output = layer(tf.constant([6, 99, 6, 5], tf.int64), training=False)
    weights = tf.constant([[1.0], [10.0], [100.0], [1000.0]])
    (gradient,) = tf.gradients(tf.reduce_sum(output * weights), [layer.embedding_variable])
    with initialized_session() as session:
        session.run(insert)
        slices = session.run(gradient)
        by_row = dict(zip(slices.indices.tolist(), slices.values.tolist()))
        assert by_row == {0: [1000.0, 1000.0], 1: [101.0, 101.0]}


def test_gradient_of_training_false_with_bags(sok):
    layer = sok.DistributedEmbedding("mean", 10, 2, 1, max_nnz=3)
    insert = layer(sparse_tensor([[5, 6]], 3))
    bags = [[6, 99, 6], [], [5, 6], [99]]
    output = tf.reshape(layer(sparse_tensor(bags, 3), training=False), [-1, 2])
    weights = tf.constant([[3.0], [10.0], [200.0], [1000.0]])
    (gradient,) = tf.gradients(tf.reduce_sum(output * weights), [layer.embedding_variable])
    with initialized_session() as session:
        session.run(insert)
        slices = session.run(gradient)
        assert sorted(slices.indices.tolist()) == [0, 1]
        by_row = dict(zip(slices.indices.tolist(), slices.values.tolist()))
        np.testing.assert_allclose([by_row[0], by_row[1]], [[100.0] * 2, [102.0] * 2], rtol=1e-6)


def run_for(shape, dtype=None):
    """An initializer that is run for new keys."""
    return tf.fill(shape, tf.constant(0.5, dtype))


@pytest.mark.parametrize("initializer", [None, run_for], ids=["function of the key", "run"])
@pytest.mark.parametrize("case", [ALL_CASES[0], ALL_CASES[-1]], ids=str)
def test_training_may_be_a_tensor(sok, case, initializer):
    """One lookup then serves training and evaluation, with gradients of rows there are."""
    layer, inputs = case.make_layer(embedding_initializer=initializer), case.placeholder()
    training = tf.compat.v1.placeholder(tf.bool, [])
    output = layer(inputs, training=training)
    always = layer(inputs, training=tf.constant(False))
    (gradient,) = tf.gradients(tf.reduce_sum(output), [layer.embedding_variable])
    rng = np.random.default_rng(1)
    batch = case.batch(rng, 8, case.keys(rng))
    keys = np.unique(batch.values if case.is_sparse else batch)
    with initialized_session() as session:

        def run(is_training):
            found = session.run([output, always, gradient], {inputs: batch, training: is_training})
            np.testing.assert_array_equal(found[0], found[1])
            return sorted(found[2].indices), session.run(layer.embedding_variable.num_keys())

        in_use = keys.tolist() if not case.use_hashtable else list(range(len(keys)))
        if initializer is run_for and not case.use_hashtable:  # an array: all rows are in use
            before = after = (keys.tolist(), layer.embedding_variable.capacity)
        else:
            before, after = ([], 0), (in_use, len(keys))
        assert run(False) == before
        assert run(True) == after
        assert run(False) == after


def test_tables_of_equal_shape_are_distinct(sok):
    layers = [sok.All2AllDenseEmbedding(10, 3, 1, 1, dynamic_input=True) for _ in range(3)]
    tables = [layer.embedding_variable for layer in layers]
    assert len({table.m_var_name for table in tables}) == 3
    keys = tf.constant([1, 2], tf.int64)
    outputs = [layer(keys) for layer in layers[:2]]
    sizes = [table.num_keys() for table in tables]
    with initialized_session() as session:
        first, second = session.run(outputs)
        assert not np.any(first == second)
        assert session.run(sizes) == [2, 2, 0]


@pytest.mark.parametrize("case", [ALL_CASES[0], ALL_CASES[-1]], ids=str)
def test_mixed_precision(sok, case):
    """float16 output and gradient of it, float32 table."""
    layer = case.make_layer(dtype=keras.mixed_precision.Policy("mixed_float16"))
    inputs = case.placeholder()
    output, exact = layer(inputs), case.make_layer(dtype="float32")(inputs)
    assert (output.dtype, exact.dtype) == (tf.float16, tf.float32)
    (gradient,) = tf.gradients(tf.reduce_sum(output) * 0.5, [layer.embedding_variable])
    assert gradient.dtype == tf.float32
    rng = np.random.default_rng(1)
    batch = case.batch(rng, 4, case.keys(rng))
    with initialized_session() as session:
        values, slices = session.run([output, gradient], {inputs: batch})
        rows = session.run(layer.embedding_variable.export())[1]
        assert rows.dtype == np.float32
        assert 0 < np.abs(values).max() <= 0.05 * MAX_NNZ
        num_keys = len(batch.values) if case.is_sparse else batch.size
        assert slices.values.sum() == pytest.approx(0.5 * num_keys * case.dim)


@pytest.mark.parametrize("case", ALL_CASES[::4], ids=str)
def test_config_makes_an_equal_layer(sok, case):
    layer = case.make_layer(embedding_initializer="ones", name="named")
    copy = type(layer).from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()
    assert copy.name == "named"
    assert copy.embedding_variable is not layer.embedding_variable


def test_layers_in_a_functional_model(sok):
    sparse_input = keras.Input([3], sparse=True, dtype=tf.int64)
    dense_input = keras.Input([2, 2], dtype=tf.int64)
    sparse = sok.DistributedEmbedding("sum", 10, 4, slot_num=1, max_nnz=3)
    dense = sok.All2AllDenseEmbedding(10, 4, slot_num=2, nnz_per_slot=2)
    features = [keras.layers.Flatten()(x) for x in (sparse(sparse_input), dense(dense_input))]
    model = keras.Model([sparse_input, dense_input], keras.layers.Concatenate()(features))
    output = model([sparse_tensor([[1, 2], []], 3), tf.zeros([2, 2, 2], tf.int64)])
    trained = [variable_of(each) for each in model.trainable_variables]
    assert any(each is sparse.embedding_variable for each in trained)
    with initialized_session() as session:
        assert session.run(output).shape == (2, 4 + 16)
