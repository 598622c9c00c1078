# SPDX-License-Identifier: Apache-2.0
"""DistributedEmbedding on one process, beside its layers one by one."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.distributed_embeddings.planning import placed_tables
from sok_compat.distributed_embeddings.python.layers import dist_model_parallel as dmp
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding
from sok_compat.runtime import devices
from sok_compat.runtime.tf_versions import has_keras_2, variable_of
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from tests.support.behaviors import IS_TF1, computed, initialize
from tests.support.cases.layers_of_scripts import Doubled
from tests.support.processes.subprocess_python import run_python

in_graphs = pytest.mark.skipif(not has_keras_2, reason="Keras 3 is not for graphs")


def rows(*shape):
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


def test_outputs_are_those_of_the_layers():
    layers = [
        keras.layers.Embedding(6, 2),
        Embedding(5, 2, combiner="sum"),
        Embedding(4, 3, combiner="mean"),
        Embedding(7, 2),
    ]
    inputs = [
        tf.constant([1, 5]),
        tf.ragged.constant([[4, 4, 0], []]),
        tf.sparse.from_dense([[0, 3], [2, 1]]),
        tf.constant([[6], [0]]),
        tf.ragged.constant([[1], [2, 3]]),
        tf.constant([[[1, 1], [1, 2]], [[0, 1], [3, 3]]]),
    ]
    used = [0, 1, 2, 3, 3, 2]
    layer = dmp.DistributedEmbedding(layers, input_table_map=used)
    outputs = layer(inputs)
    tables = [rows(*layer.strategy.shape(table)) for table in range(4)]
    for one in layers:
        one.build([None])
    initialize()
    layer.set_weights(tables)
    for one, table in zip(layers, tables):
        one.set_weights([table])
    outputs = outputs if IS_TF1 else layer(inputs)
    for ids, table, output in zip(inputs, used, outputs):
        expected = layers[table](ids)
        assert type(output) is type(expected)
        assert output.dtype == expected.dtype == tf.float32
        assert output.shape.as_list() == expected.shape.as_list()
        values = computed([getattr(x, "flat_values", x) for x in (output, expected)])
        np.testing.assert_allclose(*values, rtol=1e-6, atol=1e-6)
    assert [tuple(weight.shape) for weight in layer.weights] == [(13, 2), (5, 2), (4, 3)]
    trained = [variable_of(weight) for weight in layer.trainable_weights]
    assert [one.embeddings for one in layer.local_embedding_layers] == trained


def test_first_values_are_those_of_each_table():
    layers = [
        Embedding(4, 3, "ones"),
        Embedding(4, 3, "zeros"),
        Embedding(2000, 3, keras.initializers.VarianceScaling(mode="fan_in")),
        Embedding(20, 3, keras.initializers.VarianceScaling(mode="fan_in")),
        Embedding(5, 3, keras.initializers.Orthogonal()),
        Embedding(5, 3, keras.initializers.Orthogonal()),
        *(Embedding(5, 3, uniform) for uniform in [keras.initializers.RandomUniform()] * 2),
    ]
    layer = dmp.DistributedEmbedding(layers)
    layer([tf.constant([0])] * 8)
    initialize()
    *tables, of_an_object, of_the_same = layer.get_weights()
    assert not np.array_equal(of_an_object, of_the_same)
    np.testing.assert_array_equal(tables[0], np.ones([4, 3]))
    np.testing.assert_array_equal(tables[1], np.zeros([4, 3]))
    np.testing.assert_allclose(np.std(tables[2]), np.sqrt(1 / 2000), rtol=0.1)
    np.testing.assert_allclose(np.std(tables[3]), np.sqrt(1 / 20), rtol=0.3)
    for table in tables[4:]:
        np.testing.assert_allclose(table.T @ table, np.eye(3), atol=1e-5)
    assert not np.array_equal(*tables[4:])


def test_first_values_of_weights_given_to_layers():
    """In tables that are joined with others, and in layers that are called as they are."""
    given = [rows(4, 2), 2 * rows(4, 2), rows(3, 2), rows(5, 2)]
    layers = [
        Embedding(4, 2, weights=[given[0]]),
        keras.layers.Embedding(4, 2, weights=[given[1]]),
        Doubled(3, 2, **({"weights": [given[2]]} if has_keras_2 else {})),
        Embedding(5, 2, embeddings_regularizer="l2", weights=[given[3]]),
        Embedding(6, 2, "zeros"),
    ]
    layer = dmp.DistributedEmbedding(layers)
    layer([tf.constant([0])] * 5)
    initialize()
    for number, expected in enumerate([*given, np.zeros([6, 2])]):
        # In TensorFlow 1, the initializer's op draws anew what Keras wrote into a layer of its own.
        # A layer of Keras 3 does not have this argument unless it says so.
        if not (IS_TF1 and number in (2, 3)) and (has_keras_2 or number != 2):
            np.testing.assert_array_equal(layer.get_weights()[number], expected)
    with pytest.raises(ValueError, match=r"weight.* shape \(4, 2\).* \(2, 4\)"):
        dmp.DistributedEmbedding([Embedding(4, 2, weights=[rows(2, 4)])])(tf.constant([0]))


def test_layers_that_are_called_as_they_are():
    layers = [Doubled(4, 2), Doubled(3, 2), Embedding(5, 2, embeddings_regularizer="l2")]
    layer = dmp.DistributedEmbedding(layers)
    inputs = [tf.constant([3]), tf.constant([2]), tf.constant([4])]
    layer(inputs)
    initialize()
    tables = [rows(4, 2), rows(3, 2), rows(5, 2)]
    layer.set_weights(tables)
    for actual, expected in zip(layer.get_weights(), tables):
        np.testing.assert_array_equal(actual, expected)
    outputs = computed(layer(inputs))
    for output, expected in zip(outputs, [2 * tables[0][3], 2 * tables[1][2], tables[2][4]]):
        np.testing.assert_allclose(output, [expected], rtol=1e-6)
    assert len(layer.losses) == 1


def test_inputs_in_the_order_of_the_rank():
    layers = [Embedding(5, 2), Embedding(6, 3)]
    layer = dmp.DistributedEmbedding(layers, dp_input=False, input_table_map=[1, 0])
    assert layer.strategy.input_ids_list == [[1, 0]]
    of_table_0, of_table_1 = tf.constant([4]), tf.constant([5])
    outputs = layer([of_table_0, of_table_1])
    assert [output.shape.as_list() for output in outputs] == [[1, 3], [1, 2]]


def test_weights_from_files(tmp_path):
    layer = dmp.DistributedEmbedding([Embedding(40, 3), Embedding(9, 3)])
    layer([tf.constant([0])] * 2)
    initialize()
    tables = [rows(40, 3), rows(9, 3)]
    np.save(tmp_path / "0.npy", tables[0])
    layer.set_weights([tmp_path / "0.npy", tables[1]], chunk=7, use_lock=True)
    for actual, expected in zip(layer.get_weights(all_ranks=True), tables):
        np.testing.assert_array_equal(actual, expected)


def test_ids_of_no_row():
    layer = dmp.DistributedEmbedding([Embedding(4, 2), Embedding(5, 2), Embedding(6, 3)])
    layer([tf.constant([0])] * 3)
    initialize()
    for wrong in ([4, 0, 0], [-1, 0, 0], [0, 5, 0], [0, 0, 6]):
        with pytest.raises(tf.errors.InvalidArgumentError):
            computed(layer([tf.constant([one]) for one in wrong]))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
@pytest.mark.parametrize("is_graph", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("wrong", [[[3], [6]], [[-1], [0]]])
def test_id_of_no_row_does_not_read_a_neighbour(dtype, is_graph, wrong):
    layer = dmp.DistributedEmbedding(Embedding(size, 2, combiner="sum") for size in (5, 6, 4))
    right = [tf.constant([[4], [0]], dtype), tf.constant([[0], [5]]), tf.constant([[3, 3], [0, 1]])]
    layer(right)
    initialize()
    call = tf.function(layer) if is_graph else layer
    rows_of_first = computed(call(right)[0])
    assert layer.strategy.local_input_offsets[0] == [0, 5, 11]
    place, found = next((i, id) for i, (id,) in enumerate(wrong) if not 0 <= id < 6)
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=rf"{layer.name}: the table 1 \(embedding.*\) of input 1 has 6 rows: ids must be at "
        rf"least 0 and below that, got {found} at position {place} of 2",
    ):
        computed(call([right[0], tf.constant(wrong, dtype), right[2]]))
    np.testing.assert_array_equal(computed(call(right)[0]), rows_of_first)


def test_sparse_ids_of_another_rank_raise_in_words_of_this_system():
    layer = dmp.DistributedEmbedding([Embedding(4, 2, combiner="sum")])
    with pytest.raises(ValueError, match="must have rank 2.*bags.* got rank 3") as error:
        layer([tf.sparse.from_dense([[[1]]])])
    assert "slot_num" not in str(error.value)


def test_batches_without_samples():
    layer = dmp.DistributedEmbedding([Embedding(5, 2, combiner="sum"), Embedding(6, 2)])
    for shape in ([2, 3], [0, 3], [2, 0], [0, 1]):
        outputs = layer([tf.zeros(shape, tf.int64), tf.zeros(shape[:1], tf.int32)])
        initialize()
        pooled, plain = computed(outputs)
        assert pooled.shape == plain.shape == (shape[0], 2)
        if shape[1] == 0:
            assert not np.any(pooled)


def test_frozen_tables_and_mixed_precision():
    layers = [Embedding(4, 2, trainable=False), Embedding(4, 2)]  # frozen ones are marked, too
    layer = dmp.DistributedEmbedding(layers, dtype=keras.mixed_precision.Policy("mixed_float16"))
    assert [output.dtype for output in layer([tf.constant([1])] * 2)] == [tf.float16] * 2
    assert len(layer.trainable_weights) == len(layer.non_trainable_weights) == 1
    assert all(weight.de_local for weight in layer.weights)


@in_graphs
def test_graph_mode():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        layer = dmp.DistributedEmbedding([Embedding(4, 2, "ones", combiner="sum")])
        ids = tf.compat.v1.placeholder(tf.int64, [None, 2])
        (output,) = layer([ids])
        gradient = tf.gradients(output, layer.trainable_weights)[0]
        train = tf.compat.v1.train.GradientDescentOptimizer(1.0).apply_gradients(
            [(gradient, layer.trainable_weights[0])]
        )
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run(output, {ids: [[0, 3]]}).tolist() == [[2, 2]]
        session.run(train, {ids: [[0, 3]]})
        assert session.run(output, {ids: [[0, 1]]}).tolist() == [[1, 1]]


def test_weights_in_sessions(tmp_path):
    tables = [rows(4, 2), rows(40, 2), rows(3, 2)]
    np.save(tmp_path / "1.npy", tables[1])
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        layers = [Embedding(4, 2, "ones"), Embedding(40, 2, "zeros"), Doubled(3, 2)]
        layer = dmp.DistributedEmbedding(layers)
        layer([tf.constant([0])] * 3)
        session.run(tf.compat.v1.global_variables_initializer())
        assert layer.get_weights()[0].tolist() == np.ones([4, 2]).tolist()
        layer.set_weights([tables[0], tmp_path / "1.npy", tables[2]], chunk=7)
        num_ops = len(graph.get_operations())
        graph.finalize()
        for _ in range(2):
            for actual, expected in zip(layer.get_weights(True), tables, strict=True):
                np.testing.assert_array_equal(actual, expected)
            layer.set_weights(tables, chunk=1, use_lock=True)
        assert len(graph.get_operations()) == num_ops
        other = dmp.DistributedEmbedding(layers)
    with pytest.raises(RuntimeError, match="read and set in a session"), graph.as_default():
        layer.get_weights()
    with pytest.raises(ValueError, match="no weights before a call"):
        other.get_weights()


@pytest.mark.parametrize("shape", [(4_000_000, 8), (16_000_000, 1)])
@pytest.mark.parametrize("kind", ["Embedding", "Doubled"])
def test_memory_of_weights(shape, kind):
    """A table, an array of it and blocks, however long a chunk may be."""
    printed = run_python(
        f"""
        from tests.support.processes.subprocess_python import peak_mib
        import numpy as np
        import tensorflow as tf
        from sok_compat.distributed_embeddings.python.layers import dist_model_parallel as dmp
        from sok_compat.distributed_embeddings.python.layers.embedding import Embedding
        from tests.support.cases.layers_of_scripts import Doubled

        layer = dmp.DistributedEmbedding([{kind}(*{shape})])
        layer([tf.constant([0])])
        table = np.arange({np.prod(shape)}, dtype=np.float32).reshape({shape})
        peaks = [peak_mib()]
        layer.set_weights([table])
        peaks.append(peak_mib())
        (read,) = layer.get_weights()
        peaks.append(peak_mib())
        assert np.array_equal(read, table)
        print(*np.diff(peaks))
        """
    )
    table = 4 * np.prod(shape) // 2**20
    by_set, by_get = map(int, printed.split())
    assert by_set < table + 80
    assert by_set > table / 2 or kind == "Doubled"  # a variable has its memory already
    assert by_get < table + 80


def test_weights_of_a_finalized_graph():
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        layer = dmp.DistributedEmbedding([Embedding(4, 2, "ones")])
        layer([tf.constant([0])])
        session.run(tf.compat.v1.global_variables_initializer())
        graph.finalize()
        assert layer.get_weights()[0].tolist() == np.ones([4, 2]).tolist()
        assert graph.finalized


@in_graphs
def test_large_tables_stay_in_the_memory_of_the_host(monkeypatch):
    """In a graph, which needs no GPU to be built."""
    monkeypatch.setattr(placed_tables, "can_use_gpus", lambda: True)
    monkeypatch.setattr(devices, "can_use_gpus", lambda: True)
    with tf.Graph().as_default():
        layers = [Embedding(100, 8), Embedding(50, 8), Embedding(10, 8), Embedding(20, 4)]
        layer = dmp.DistributedEmbedding(layers, gpu_embedding_size=600)
        layer.build([[4]] * 4)
        placed = {tuple(one.shape.as_list()): tf.DeviceSpec.from_string(one.device).device_type
                  for one in layer.weights}  # fmt: skip
    assert placed == {(100, 8): "CPU", (60, 8): "GPU", (20, 4): "GPU"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda layer: layer([tf.constant([1])]), r"Expect \[0, 1\] inputs, got 1"),
        (
            lambda layer: layer([tf.constant([1]), tf.constant([1, 2])]),
            r"same batchsize. got \[1, 2\]",
        ),
        (
            lambda layer: layer.set_weights([rows(4, 2), np.array([["a", "b"]] * 5)]),
            r"table 1 \(second\) needs an array of numbers",
        ),
        (lambda layer: layer.set_weights([rows(4, 2)]), "each of its 2 tables, got 1"),
        (
            lambda layer: layer.set_weights([rows(4, 2), rows(4, 3)]),
            r"table 1 \(second\) has the shape \(5, 2\), got \(4, 3\)",
        ),
        (lambda layer: layer.set_weights([rows(4, 2), rows(5, 2)], chunk=0), "chunk must be"),
    ],
)
def test_wrong_use_raises(call, message):
    layers = [Embedding(4, 2, combiner="sum"), Embedding(5, 2, name="second")]
    layer = dmp.DistributedEmbedding([Embedding(4, 2), layers[1]])
    if "batchsize" not in message:
        layer([tf.constant([0])] * 2)
    with pytest.raises(ValueError, match=message):
        call(layer)


def test_layer_without_weights_yet_raises():
    layer = dmp.DistributedEmbedding([Embedding(4, 2)])
    with pytest.raises(ValueError, match="expecting 0 weights"):
        layer.set_weights([rows(4, 2)])
    with pytest.raises(ValueError, match="no weights before a call"):
        layer.get_weights()
    with pytest.raises(ValueError, match="Unsupported shard strategy best"):
        dmp.DistributedEmbedding([Embedding(4, 2)], strategy="best")
