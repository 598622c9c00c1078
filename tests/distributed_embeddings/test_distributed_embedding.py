# SPDX-License-Identifier: Apache-2.0
"""DistributedEmbedding on one process, beside its layers one by one."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.distributed_embeddings import placed_tables
from sok_compat.distributed_embeddings.python.layers import dist_model_parallel as dmp
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding
from sok_compat.runtime import devices
from sok_compat.runtime.tf_versions import keras

legacy = keras.optimizers.legacy


class Doubled(keras.layers.Layer):
    """What a script may have in an embedding's place."""

    def __init__(self, input_dim, output_dim, **kwargs):
        super().__init__(**kwargs)
        self.input_dim, self.output_dim = input_dim, output_dim

    def build(self, _):
        self.rows = self.add_weight(name="rows", shape=[self.input_dim, self.output_dim])

    def call(self, ids):
        return 2 * tf.gather(self.rows, ids)

    def get_config(self):
        return {
            **super().get_config(),
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
        }


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
    layer(inputs)
    tables = [rows(*layer.strategy.shape(table)) for table in range(4)]
    layer.set_weights(tables)
    for one, table in zip(layers, tables):
        one.build([None])
        one.set_weights([table])
    outputs = layer(inputs)
    for ids, table, output in zip(inputs, used, outputs):
        expected = layers[table](ids)
        assert type(output) is type(expected)
        assert output.shape.as_list() == expected.shape.as_list()
        values = [getattr(x, "flat_values", x) for x in (output, expected)]
        np.testing.assert_allclose(*values, rtol=1e-6, atol=1e-6)
    assert [tuple(weight.shape) for weight in layer.weights] == [(13, 2), (5, 2), (4, 3)]
    assert [one.embeddings for one in layer.local_embedding_layers] == layer.trainable_weights


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
    *tables, of_an_object, of_the_same = layer.get_weights()
    assert not np.array_equal(of_an_object, of_the_same)
    np.testing.assert_array_equal(tables[0], np.ones([4, 3]))
    np.testing.assert_array_equal(tables[1], np.zeros([4, 3]))
    np.testing.assert_allclose(np.std(tables[2]), np.sqrt(1 / 2000), rtol=0.1)
    np.testing.assert_allclose(np.std(tables[3]), np.sqrt(1 / 20), rtol=0.3)
    for table in tables[4:]:
        np.testing.assert_allclose(table.T @ table, np.eye(3), atol=1e-5)
    assert not np.array_equal(*tables[4:])


def test_layers_that_are_called_as_they_are():
    layers = [Doubled(4, 2), Doubled(3, 2), Embedding(5, 2, embeddings_regularizer="l2")]
    layer = dmp.DistributedEmbedding(layers)
    inputs = [tf.constant([3]), tf.constant([2]), tf.constant([4])]
    layer(inputs)
    tables = [rows(4, 2), rows(3, 2), rows(5, 2)]
    layer.set_weights(tables)
    for actual, expected in zip(layer.get_weights(), tables):
        np.testing.assert_array_equal(actual, expected)
    outputs = layer(inputs)
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
    tables = [rows(40, 3), rows(9, 3)]
    np.save(tmp_path / "0.npy", tables[0])
    layer.set_weights([tmp_path / "0.npy", tables[1]], chunk=7, use_lock=True)
    for actual, expected in zip(layer.get_weights(all_ranks=True), tables):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: legacy.Adagrad(0.1),
        lambda: legacy.Adam(0.1),
        lambda: legacy.SGD(0.1, momentum=0.9, nesterov=True),
        lambda: legacy.Ftrl(0.1),
        lambda: legacy.RMSprop(0.1, centered=True),
        lambda: keras.optimizers.Adam(0.1),
    ],
)
def test_stock_optimizers_without_a_scope(make, tmp_path):
    """As plain layers; slots are planes, and saved with their tables."""
    layers = [
        Embedding(6, 3, combiner="sum"),
        Embedding(9, 3, combiner="mean"),
        Embedding(5, 2, embeddings_regularizer="l2", combiner="sum"),  # on a variable
    ]
    tables = [rows(6, 3), rows(9, 3), rows(5, 2)]
    batches = [tf.constant(np.random.default_rng(i).integers(0, 5, [4, 2])) for i in range(4)]
    ours = dmp.DistributedEmbedding(layers)
    plain = [Embedding.from_config(layer.get_config()) for layer in layers]
    ours([batches[0]] * 3)
    ours.set_weights(tables)
    for layer, table in zip(plain, tables):
        layer.build(None)
        layer.set_weights([table])

    def train(call, variables, optimizer, batches):
        for ids in batches:
            with tf.GradientTape() as tape:
                loss = sum(tf.reduce_mean(tf.sin(output)) for output in call([ids] * 3))
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    variables = [layer.embeddings for layer in plain]
    train(lambda x: [f(ids) for f, ids in zip(plain, x)], variables, make(), batches)
    optimizer = dmp.DistributedOptimizer(make())
    train(ours, ours.trainable_weights, optimizer, batches[:2])
    path = tf.train.Checkpoint(ours=ours, optimizer=optimizer).write(str(tmp_path / "saved"))
    ours.set_weights([0 * table for table in tables])
    for where in (ours, dmp.DistributedEmbedding(layers)):
        where([batches[0]] * 3)
        again = optimizer if where is ours else make()
        tf.train.Checkpoint(ours=where, optimizer=again).read(path)
        train(where, where.trainable_weights, again, batches[2:])
        for actual, layer in zip(where.get_weights(), plain):
            np.testing.assert_allclose(actual, layer.get_weights()[0], rtol=1e-5, atol=1e-6)


def test_ids_of_no_row():
    layer = dmp.DistributedEmbedding([Embedding(4, 2), Embedding(5, 2), Embedding(6, 3)])
    for wrong in ([4, 0, 0], [-1, 0, 0], [0, 5, 0], [0, 0, 6]):
        with pytest.raises(tf.errors.InvalidArgumentError):
            layer([tf.constant([one]) for one in wrong])


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
@pytest.mark.parametrize("is_graph", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("wrong", [[[3], [6]], [[-1], [0]]])
def test_id_of_no_row_does_not_read_a_neighbour(dtype, is_graph, wrong):
    layer = dmp.DistributedEmbedding([Embedding(size, 2, combiner="sum") for size in (5, 6, 4)])
    right = [tf.constant([[4], [0]], dtype), tf.constant([[0], [5]]), tf.constant([[3, 3], [0, 1]])]
    call = tf.function(layer) if is_graph else layer
    rows_of_first = call(right)[0]
    assert layer.strategy.local_input_offsets[0] == [0, 5, 11]
    place, found = next((i, id) for i, (id,) in enumerate(wrong) if not 0 <= id < 6)
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=rf"{layer.name}: ids of a table of 6 rows must be at least 0 and below that, "
        rf"got {found} at position {place} of 2",
    ):
        call([right[0], tf.constant(wrong, dtype), right[2]])
    np.testing.assert_array_equal(call(right)[0], rows_of_first)


def test_batches_without_samples():
    layer = dmp.DistributedEmbedding([Embedding(5, 2, combiner="sum"), Embedding(6, 2)])
    for shape in ([2, 3], [0, 3], [2, 0], [0, 1]):
        pooled, plain = layer([tf.zeros(shape, tf.int64), tf.zeros(shape[:1], tf.int32)])
        assert pooled.shape == plain.shape == [shape[0], 2]
        if shape[1] == 0:
            assert not np.any(pooled)


def test_frozen_tables_and_mixed_precision():
    layers = [Embedding(4, 2, trainable=False), Embedding(4, 2)]  # frozen ones are marked, too
    layer = dmp.DistributedEmbedding(layers, dtype=keras.mixed_precision.Policy("mixed_float16"))
    assert [output.dtype for output in layer([tf.constant([1])] * 2)] == [tf.float16] * 2
    assert len(layer.trainable_weights) == len(layer.non_trainable_weights) == 1
    assert all(weight.de_local for weight in layer.weights)


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


def saved_in_graph(path, sizes, is_restored=False, with_noise=False):
    """The weights after a saver has saved them, or failed to restore others."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        layer = dmp.DistributedEmbedding([Embedding(*size) for size in sizes])
        layer([tf.constant([0])] * len(sizes))
        if with_noise:
            noise = tf.random.normal(layer.weights[0].shape)
            optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
            optimizer._get_or_make_slot(layer.weights[0], noise, "noise", "noise")
        saver = tf.compat.v1.train.Saver(layer.weights[:1])
        session.run(tf.compat.v1.global_variables_initializer())
        layer.set_weights([rows(*size) for size in sizes])
        if is_restored:
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"tables/1/rows|\[51,4\]"):
                saver.restore(session, path)
        else:
            saver.save(session, path)
        return layer.get_weights()


def test_savers_in_graphs(tmp_path):
    """One table brings all; what does not fit leaves all as it was."""
    path = str(tmp_path / "saved")
    saved_in_graph(path, [(30, 4), (50, 4), (7, 3)])
    names = {f"distributed_embedding/tables/{table}/rows" for table in range(3)}
    assert {name for name, _ in tf.train.list_variables(path)} == names
    for actual, size in zip(saved_in_graph(path, [(30, 4), (51, 4)], True), [(30, 4), (51, 4)]):
        np.testing.assert_array_equal(actual, rows(*size))
    with pytest.raises(NotImplementedError, match="noise:0, which .* one number everywhere"):
        saved_in_graph(path, [(30, 4)], with_noise=True)


def test_final_graph_has_to_know_the_ops():
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        layer = dmp.DistributedEmbedding([Embedding(4, 2)])
        layer([tf.constant([0])])
        session.run(tf.compat.v1.global_variables_initializer())
        graph.finalize()
        with pytest.raises(RuntimeError, match="has no ops yet for the weights"):
            layer.get_weights()


def test_large_tables_stay_in_the_memory_of_the_host(monkeypatch):
    """In a graph, which needs no GPU to be built."""
    monkeypatch.setattr(placed_tables, "can_use_gpus", lambda: True)
    monkeypatch.setattr(devices, "can_use_gpus", lambda: True)
    with tf.Graph().as_default():
        layers = [Embedding(100, 8), Embedding(50, 8), Embedding(10, 8), Embedding(20, 4)]
        layer = dmp.DistributedEmbedding(layers, gpu_embedding_size=600)
        layer.build([[4]] * 4)
        placed = {tuple(one.shape): tf.DeviceSpec.from_string(one.device).device_type
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
