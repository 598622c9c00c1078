# SPDX-License-Identifier: Apache-2.0
"""`embedding_lookup` and the layers on ordinary variables beside NumPy and TensorFlow's own."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.distributed_embeddings.python.layers.embedding import (
    ConcatOneHotEmbedding,
    Embedding,
)
from sok_compat.distributed_embeddings.python.ops.embedding_lookup_ops import (
    embedding_lookup,
    read_var_no_copy,
)
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from tests.support.behaviors import IS_TF1, computed, initialize

ROWS, WIDTH = 11, 3
BAGS = [[1, 2], [], [3], [10, 10, 0], [], [5]]  # as many ids as bags but one; then exactly as many
DENSE = [[1, 2], [3, 3], [10, 0], [4, 4]]


def rows_of_table(seed=0):
    return np.random.default_rng(seed).normal(size=(ROWS, WIDTH)).astype(np.float32)


def ragged(dtype=tf.int64, splits_dtype=tf.int64, bags=BAGS):
    return tf.ragged.constant(bags, dtype=dtype, ragged_rank=1, row_splits_dtype=splits_dtype)


FORMS = {
    "dense": lambda: (DENSE, tf.constant(DENSE, tf.int64)),
    "dense int32": lambda: (DENSE, tf.constant(DENSE, tf.int32)),
    "one id": lambda: ([[2], [2], [7]], tf.constant([[2], [2], [7]])),
    "ragged": lambda: (BAGS, ragged()),
    "ragged int32": lambda: (BAGS, ragged(tf.int32)),
    "ragged int32 splits": lambda: (BAGS, ragged(tf.int64, tf.int32)),
    "as many ids as bags": lambda: ([[1, 2], [], [3]], ragged(bags=[[1, 2], [], [3]])),
    "sparse": lambda: (BAGS, ragged().to_sparse()),
    "sparse, the last ones empty": lambda: (
        [[1], [2, 2], [], []],
        ragged(bags=[[1], [2, 2], [], []]).to_sparse(),
    ),
    "sparse int32": lambda: (BAGS, ragged(tf.int32).to_sparse()),
}


def pooling(bags, combiner):
    """[bags, ROWS]: what each row counts in each bag."""
    counts = np.zeros([len(bags), ROWS], np.float32)
    for bag, ids in enumerate(bags):
        for key in ids:
            counts[bag, key] += 1 / len(ids) if combiner == "mean" else 1
    return counts


@pytest.mark.parametrize("combiner", ["sum", "mean"])
@pytest.mark.parametrize("form", FORMS)
def test_pooled_rows_and_their_gradient(form, combiner):
    bags, ids = FORMS[form]()
    table, factors = tf.Variable(rows_of_table()), rows_of_table(seed=1)[: len(bags)]
    with tf.GradientTape() as tape:
        output = embedding_lookup(table, ids, combiner)
        loss = tf.reduce_sum(output * factors)
    counts = pooling(bags, combiner)
    assert output.shape.is_compatible_with([len(bags), WIDTH])
    gradient = tape.gradient(loss, table)
    assert isinstance(gradient, tf.IndexedSlices)
    initialize()
    output, gradient = computed([output, tf.convert_to_tensor(gradient)])
    np.testing.assert_allclose(output, counts @ rows_of_table(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(gradient, counts.T @ factors, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("combiner", ["sum", "mean"])
def test_dense_ids_are_added_up_in_the_order_of_tensorflow(combiner):
    table = tf.Variable(rows_of_table())
    ids = tf.constant(np.random.default_rng(1).integers(0, ROWS, [5, 207]))
    reduce = {"sum": tf.reduce_sum, "mean": tf.reduce_mean}[combiner]
    outputs = [embedding_lookup(table, ids, combiner), reduce(tf.gather(table, ids), 1)]
    initialize()
    rounding = {"sum": 0, "mean": 3e-7}[combiner]  # graphs may multiply in the place of a division
    np.testing.assert_allclose(*computed(outputs), rtol=rounding)


def test_gradient_has_a_slice_for_each_distinct_id():
    table = tf.Variable(rows_of_table())
    with tf.GradientTape() as tape:
        output = embedding_lookup(table, ragged(), "sum")
    indices = tape.gradient(output, table).indices
    initialize()
    assert sorted(computed(indices)) == [0, 1, 2, 3, 5, 10]


@pytest.mark.parametrize("form", ["dense", "ragged", "ragged int32 splits"])
def test_rows_without_a_combiner(form):
    bags, ids = FORMS[form]()
    table = tf.Variable(rows_of_table())
    with tf.GradientTape() as tape:
        output = embedding_lookup(table, ids)
        loss = tf.reduce_sum(getattr(output, "flat_values", output) ** 2)
    flat = [key for bag in bags for key in bag]
    assert isinstance(output, tf.RaggedTensor) == (form != "dense")
    actual = tf.reshape(getattr(output, "flat_values", output), [-1, WIDTH])
    gradient = tf.convert_to_tensor(tape.gradient(loss, table))
    initialize()
    actual, gradient = computed([actual, gradient])
    np.testing.assert_array_equal(actual, rows_of_table()[flat])
    expected = 2 * pooling([flat], "sum").T * rows_of_table()
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)


def test_other_floats():
    table = rows_of_table().astype(np.float64)
    output = embedding_lookup(tf.Variable(table), ragged(), "sum")
    initialize()
    np.testing.assert_allclose(computed(output), pooling(BAGS, "sum") @ table, rtol=1e-12)


@pytest.mark.skipif(IS_TF1, reason="a function is called in eager mode")
def test_functions_and_graphs_of_unknown_batches():
    table = rows_of_table()
    spec = [tf.TensorSpec([None, None], tf.int64), tf.RaggedTensorSpec([None, None], tf.int64)]
    both = lambda *ids: [embedding_lookup(table_variable, x, "mean") for x in ids]  # noqa: E731
    table_variable = tf.Variable(table)
    expected = [pooling(bags, "mean") @ table for bags in (DENSE, BAGS)]
    outputs = tf.function(both, spec)(tf.constant(DENSE, tf.int64), ragged())
    for actual, wanted in zip(outputs, expected):
        np.testing.assert_allclose(actual, wanted, rtol=1e-6, atol=1e-6)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        table_variable = tf.Variable(table)
        dense = tf.compat.v1.placeholder(tf.int64, [None, None])
        outputs = both(dense, ragged())
        gradient = tf.gradients(outputs[1], table_variable)[0]
        assert outputs[0].shape.as_list() == [None, WIDTH]
        session.run(tf.compat.v1.global_variables_initializer())
        given = session.run([outputs, tf.convert_to_tensor(gradient)], {dense: DENSE})
    for actual, wanted in zip(given[0], expected):
        np.testing.assert_allclose(actual, wanted, rtol=1e-6, atol=1e-6)
    wanted = pooling(BAGS, "mean").sum(0)[:, None] * np.ones(WIDTH)
    np.testing.assert_allclose(given[1], wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("error", "param", "ids", "combiner", "message"),
    [
        (TypeError, [[1.0]], [[0]], None, "param must be Tensor, got list"),
        (ValueError, None, [1, 2], "sum", "Only support 2D input, got the shape"),
        (ValueError, None, [[[1]]], None, "Only support 2D input"),
        (ValueError, None, [[1]], "max", "combiner must be None, 'sum' or 'mean', got 'max'"),
        (ValueError, None, lambda: tf.sparse.from_dense([[1]]), None, "sparse ids need a comb"),
        (TypeError, None, [[1.0]], "sum", "ids must be int32 or int64, got float32"),
        (tf.errors.InvalidArgumentError, None, [[1, ROWS]], "sum", "11 is not in"),
        (tf.errors.InvalidArgumentError, None, lambda: ragged(bags=[[-1]]), "sum", "-1 is not in"),
    ],
)
def test_wrong_lookups_raise(error, param, ids, combiner, message):
    param = tf.Variable(rows_of_table()) if param is None else param
    initialize()
    with pytest.raises(error, match=message):
        computed(embedding_lookup(param, ids() if callable(ids) else ids, combiner))


def test_value_of_a_variable():
    variable = tf.Variable([1.0, 2.0])
    initialize()
    assert computed(read_var_no_copy(variable)).tolist() == [1.0, 2.0]


def layer_and_rows(**arguments):
    layer = Embedding(ROWS, WIDTH, weights=[rows_of_table()], **arguments)
    keras.Sequential([layer])  # builds it
    np.testing.assert_array_equal(layer.get_weights()[0], rows_of_table())
    return layer, rows_of_table()


@pytest.mark.parametrize("combiner", [None, "sum", "mean"])
@pytest.mark.parametrize("shape", [(), (4,), (4, 1), (4, 2), (4, 2, 3), (2, 2, 2, 5)])
def test_layer_takes_ids_of_any_rank(shape, combiner):
    layer, table = layer_and_rows(combiner=combiner)
    ids = np.random.default_rng(2).integers(0, ROWS, shape)
    if combiner and len(shape) < 2:
        with pytest.raises(ValueError, match="1D input with combiner is ambiguous"):
            layer(ids)
        return
    rows = table[ids]
    pool = {None: lambda rows: rows, "sum": lambda rows: rows.sum(-2)}
    pool["mean"] = lambda rows: rows.mean(-2)
    output = layer(ids.astype(np.float32) if len(shape) == 2 else ids)
    np.testing.assert_allclose(computed(output), pool[combiner](rows), rtol=1e-6, atol=1e-6)
    assert layer.compute_output_shape(shape) == output.shape


@pytest.mark.parametrize("combiner", [None, "mean"])
def test_layer_takes_ragged_and_sparse_ids(combiner):
    layer, table = layer_and_rows(combiner=combiner)
    nested = tf.ragged.constant([[[1], [2]]])
    with pytest.raises(ValueError, match="Ragged input should be 2D. Nested ragged"):
        layer(nested)
    if combiner is None:
        assert layer(ragged()).shape.as_list() == [len(BAGS), None, WIDTH]
        with pytest.raises(ValueError, match="sparse ids need a combiner"):
            layer(ragged().to_sparse())
        return
    expected = pooling(BAGS, combiner) @ table
    for ids in (ragged(), ragged().to_sparse()):
        np.testing.assert_allclose(computed(layer(ids)), expected, rtol=1e-6, atol=1e-6)


def test_layer_is_made_from_stock_configurations():
    stock = keras.layers.Embedding(5, 2, "ones", mask_zero=True, input_length=3, name="words")
    layer = Embedding.from_config(stock.get_config())
    assert (layer.input_dim, layer.output_dim, layer.combiner, layer.name) == (5, 2, None, "words")
    again = Embedding.from_config(Embedding(5, 2, "ones", "l2", combiner="sum").get_config())
    assert (again.combiner, type(again.embeddings_regularizer).__name__) == ("sum", "L2")
    output = again(np.array([[0, 4]]))
    initialize()
    np.testing.assert_array_equal(computed(output), [[2, 2]])


def test_layer_keeps_float32_under_mixed_precision():
    layer = Embedding(5, 2, combiner="sum", dtype=keras.mixed_precision.Policy("mixed_float16"))
    assert layer(np.array([[0, 4]])).dtype == tf.float16
    assert layer.embeddings.dtype == tf.float32


@pytest.mark.parametrize("sizes", [(0, 3), (3, -1)])
def test_layer_without_rows_or_columns_raises(sizes):
    with pytest.raises(ValueError, match=f"should be positive, found {sizes[0]} and {sizes[1]}"):
        Embedding(*sizes)


def test_layer_fits_as_the_stock_one():
    ids = np.random.default_rng(4).integers(0, ROWS, [12, 3])
    weights = []
    for layer in (
        [Embedding(ROWS, WIDTH, weights=[rows_of_table()], combiner="mean")],
        [
            keras.layers.Embedding(ROWS, WIDTH, weights=[rows_of_table()]),
            keras.layers.GlobalAveragePooling1D(),
        ],
    ):
        model = keras.Sequential([*layer, keras.layers.Dense(1, "tanh", True, "ones")])
        model.compile(keras.optimizers.legacy.Adagrad(0.5), "mse")
        model.fit(ids, ids[:, 0], epochs=3, batch_size=4, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    for actual, expected in zip(*weights):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_one_hot_features():
    layer = ConcatOneHotEmbedding([3, 1, 4], 2)
    initialize()
    table = computed(tf.convert_to_tensor(layer.params))
    assert table.shape == (8, 2)
    ids = [[0, 0, 3], [2, 0, 0]]
    np.testing.assert_array_equal(computed(layer(tf.constant(ids))), table[np.add(ids, [0, 3, 4])])
    for wrong in ([[3, 0, 0]], [[0, -1, 0]]):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"below \[3, 1, 4\]"):
            computed(layer(tf.constant(wrong)))
    with pytest.raises(ValueError, match=r"ids must be \[batch, 3\], one for each feature"):
        layer(tf.constant([[0, 0]]))
