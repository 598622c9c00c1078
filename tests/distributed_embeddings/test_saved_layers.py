# SPDX-License-Identifier: Apache-2.0
"""What is saved of a DistributedEmbedding and its optimizers, on one process."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.distributed_embeddings.python.layers import dist_model_parallel as dmp
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding
from sok_compat.runtime.tf_versions import has_keras_2
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from tests.support.assertions import assert_same_tensors
from tests.support.behaviors import IS_TF1

if has_keras_2:
    legacy = keras.optimizers.legacy
    OPTIMIZERS = [
        lambda **name: legacy.Adagrad(0.1, **name),
        lambda **name: legacy.Adam(0.1, **name),
        lambda **name: legacy.SGD(0.1, momentum=0.9, nesterov=True, **name),
        lambda **name: legacy.Ftrl(0.1, **name),
        lambda **name: legacy.RMSprop(0.1, centered=True, **name),
        lambda **name: keras.optimizers.Adam(0.1, **name),
        lambda **name: keras.optimizers.RMSprop(0.1, momentum=0.5, centered=True, **name),
    ]
else:  # others of Keras 3 square slices of plain layers before they add them up
    OPTIMIZERS = [lambda **name: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True, **name)]
in_graphs = pytest.mark.skipif(not has_keras_2, reason="Keras 3 is not for graphs")


def rows(*shape):
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


@pytest.mark.skipif(IS_TF1, reason="trains in eager mode; workers do in sessions")
@pytest.mark.parametrize("make", OPTIMIZERS)
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


@pytest.mark.skipif(IS_TF1, reason="saves objects of eager mode")
@pytest.mark.parametrize("when", ["before it is built", "behind build", "behind a step"])
@pytest.mark.parametrize("make", OPTIMIZERS[1::5] or OPTIMIZERS)
def test_optimizers_of_other_names_and_plans_take_slots_over(make, when, tmp_path):
    """Slots are those of the optimizer as an object; other variables come behind the tables."""

    class Model:
        def __init__(self, initializers, name):
            layers = [Embedding(6, 3, initializer, combiner="sum") for initializer in initializers]
            layers.append(Embedding(5, 2, embeddings_regularizer="l2", combiner="sum"))
            self.layer, self.dense = dmp.DistributedEmbedding(layers), tf.Variable([[1.0]])
            self.optimizer = dmp.DistributedOptimizer(make(name=name))
            self.ids = [tf.constant([[1, 2]])] * 3
            self.layer(self.ids)
            self.checkpoint = tf.train.Checkpoint(
                layer=self.layer, dense=self.dense, optimizer=self.optimizer
            )

        def step(self):
            with tf.GradientTape() as tape:
                loss = sum(tf.reduce_sum(x * x) for x in self.layer(self.ids)) * self.dense[0, 0]
            variables = [*self.layer.trainable_variables, self.dense]
            self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
            return [*self.layer.get_weights(), self.dense.numpy()]

    other = "normal" if has_keras_2 else "uniform"  # Keras 3 numbers all slots
    first, second = Model(["uniform"] * 2, "first"), Model(["uniform", other], "second")
    first.step()
    path = first.checkpoint.write(str(tmp_path / "saved"))
    if when == "behind build" and hasattr(second.optimizer, "build"):
        second.optimizer.build([*second.layer.trainable_variables, second.dense])
    elif when != "before it is built":
        second.step()
    read = second.checkpoint.read(path)
    if when != "before it is built":
        read.assert_existing_objects_matched()
    for actual, expected in zip(second.step(), first.step(), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-7)
    if has_keras_2:  # an optimizer of Keras 3 holds what it trains
        read.assert_consumed()


@pytest.mark.skipif(IS_TF1, reason="eager mode cannot make a SavedModel with tables")
@pytest.mark.parametrize("save", [keras.Model.save, tf.saved_model.save][not has_keras_2 :])
def test_saved_models_of_eager_mode_raise(save, tmp_path):
    inputs = [keras.Input([2], dtype=tf.int64)]
    (rows,) = dmp.DistributedEmbedding([Embedding(4, 2, combiner="sum")])(inputs)
    with pytest.raises(NotImplementedError, match="cannot hold the table .*export_saved_model"):
        save(keras.Model(inputs, rows), str(tmp_path / "model"))


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


@in_graphs
def test_savers_in_graphs(tmp_path):
    """One table brings all; what does not fit leaves all as it was."""
    path = str(tmp_path / "saved")
    saved_in_graph(path, [(30, 4), (50, 4), (7, 3)])
    names = {f"distributed_embedding/tables/{table}/rows" for table in range(3)}
    assert {name for name, _ in tf.train.list_variables(path)} == names
    for actual, size in zip(saved_in_graph(path, [(30, 4), (51, 4)], True), [(30, 4), (51, 4)]):
        np.testing.assert_array_equal(actual, rows(*size))
    with pytest.raises(NotImplementedError, match="noise of the table .* start as a constant"):
        saved_in_graph(path, [(30, 4)], with_noise=True)


@in_graphs
@pytest.mark.parametrize("import_scope", [None, "outer"])
@pytest.mark.parametrize("given", ["all", "slots", "variables"])
def test_new_savers_of_an_imported_graph(given, import_scope, tmp_path):
    """They save and restore whole tables, as the layer's do, whichever variables they are given."""
    path, ids = str(tmp_path / "model"), [[1, 2], [3, 0]]
    tf1 = tf.compat.v1
    with tf.Graph().as_default(), tf1.Session() as session:
        layers = [Embedding(30, 4, combiner="sum"), Embedding(50, 4, combiner="mean")]
        layers.append(Embedding(7, 3, combiner="sum", embeddings_regularizer="l2"))  # on a variable
        outputs = dmp.DistributedEmbedding(layers, row_slice_threshold=200)([tf.constant(ids)] * 3)
        loss = sum(tf.reduce_sum(tf.sin(each)) for each in outputs)
        train = tf1.train.AdamOptimizer(0.1).minimize(loss)
        tf1.get_collection_ref("fetches").extend([loss, train])
        session.run(tf1.global_variables_initializer())
        session.run(train)
        tf1.train.Saver().save(session, path, write_meta_graph=False)
        tf1.train.export_meta_graph(f"{path}.meta")
        expected = [session.run([loss, train])[0] for _ in range(3)]
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.train.import_meta_graph(f"{path}.meta", import_scope=import_scope)
        variables = tf1.global_variables()
        if given != "all":  # with the powers of Adam's betas
            variables = [
                each for each in variables
                if each.shape.rank == 0 or ("Adam" in each.name) == (given == "slots")
            ]  # fmt: skip
        named = {each.op.name.removeprefix("outer/"): each for each in variables}
        saver = tf1.train.Saver(named)
        saver.restore(session, path)
        again = saver.save(session, str(tmp_path / "again"))
        actual = [session.run(tf1.get_collection("fetches"))[0] for _ in range(3)]
    assert actual == expected
    assert_same_tensors(path, again)
