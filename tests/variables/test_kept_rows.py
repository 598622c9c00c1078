# SPDX-License-Identifier: Apache-2.0
"""Rows of a table that were kept without their keys: never taken for the table."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat.runtime.tf_versions import has_keras_2
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from tests.support.cases.keras_models import DENSE, KEYS, batches, functional
from tests.support.cases.layer_cases import LayerCase

MODES = {"graph": True, "eager": False}
WITHOUT_KEYS = dict(
    match="EmbeddingVariable.*(sok.Saver|tf.train.Checkpoint)",
    expected_exception=NotImplementedError,
)


@contextlib.contextmanager
def mode(is_graph):
    """A default graph with a session, or eager mode; with Init."""
    if is_graph:
        if not has_keras_2:
            pytest.skip("Keras 3 has no graph mode")
        with tf.Graph().as_default(), tf.compat.v1.Session().as_default():
            sok_compat.Init(global_batch_size=8, seed=7)
            yield
    else:
        sok_compat.Init(global_batch_size=8, seed=7)
        yield


def trained_model(use_hashtable, optimizer="sgd"):
    """A model that has been fitted to the first half of the keys, and its table."""
    layer = LayerCase("static", use_hashtable, "int64").make_layer()
    model = functional(DENSE, layer)
    model.compile(optimizer, "mse")
    model.fit(batches(DENSE, KEYS[:24], seed=1, sizes=(8, 8)), verbose=0)
    return model, layer.embedding_variable


def rows_of(table):
    """{key: row}."""
    keys, rows = table.export()
    if not tf.executing_eagerly():
        keys, rows = tf.compat.v1.get_default_session().run([keys, rows])
    return dict(zip(np.array(keys).tolist(), np.array(rows).tolist()))


@pytest.mark.parametrize("is_graph", MODES.values(), ids=MODES)
def test_set_weights(is_graph):
    with mode(is_graph):
        model, table = trained_model(use_hashtable=True)
        weights = [np.zeros(w.shape, np.float32) for w in model.weights]
        before = rows_of(table)
        for part, values in ((model, weights), (model.layers[1], weights[:1])):
            with pytest.raises(**WITHOUT_KEYS):
                part.set_weights(values)
        assert rows_of(table) == before


@pytest.mark.parametrize("is_graph", MODES.values(), ids=MODES)
def test_whole_tables_come_back(is_graph, tmp_path):
    """Without a hash table row n is that of key n, whenever it was kept."""
    file = str(tmp_path / ("weights.h5" if has_keras_2 else "model.weights.h5"))
    with mode(is_graph):
        model, table = trained_model(use_hashtable=False)
        before, weights = rows_of(table), model.get_weights()
        model.save_weights(file)
        assert len(before) == 48
        for restore in (lambda: model.set_weights(weights), lambda: model.load_weights(file)):
            model.fit(batches(DENSE, KEYS, seed=2, sizes=(8,)), verbose=0)
            assert rows_of(table) != before
            restore()
            assert rows_of(table) == before


GETS = {
    "get_weights": lambda model, file: model.get_weights(),
    "layer": lambda model, file: model.layers[1].get_weights(),
    "save_weights": lambda model, file: model.save_weights(f"{file}.weights.h5"),
    "save": lambda model, file: model.save(f"{file}.h5"),
    "numpy": lambda model, file: model.weights[0].numpy(),
    "early stopping": lambda model, file: model.fit(
        batches(DENSE, KEYS, seed=2, sizes=(8,)),
        callbacks=[keras.callbacks.EarlyStopping("loss", restore_best_weights=True)],
        verbose=0,
    ),
}


@pytest.mark.parametrize("get", GETS.values(), ids=GETS)
def test_weights_are_not_kept_in_eager_mode(get, tmp_path):
    with mode(is_graph=False):
        model, _ = trained_model(use_hashtable=True)
        with pytest.raises(**WITHOUT_KEYS):
            get(model, tmp_path / "file")


def test_checkpoints_of_keras_in_a_graph_are_complete(tmp_path):
    with mode(is_graph=True):
        model, table = trained_model(use_hashtable=True)
        before = rows_of(table)
        model.save_weights(str(tmp_path / "weights"))
        model.fit(batches(DENSE, KEYS, seed=2, sizes=(8,)), verbose=0)
        assert len(rows_of(table)) > len(before)
        model.load_weights(str(tmp_path / "weights"))
        assert rows_of(table) == before


@pytest.mark.parametrize("save, file", [
    (keras.Model.save, "model.keras"), (keras.Model.save_weights, "model.weights.h5"),
    (keras.Model.save, "model.h5"), (keras.Model.save_weights, "old.h5"),
])  # fmt: skip
def test_files_of_keras_in_a_graph(save, file, tmp_path):
    with mode(is_graph=True):
        model, _ = trained_model(use_hashtable=True)
        with pytest.raises(NotImplementedError, match="the table EmbeddingVariable .*sok.Saver"):
            save(model, str(tmp_path / file))


@pytest.mark.parametrize("frequency", [None, 2])
def test_averages_of_keras_optimizers(frequency):
    """They are refused before a row has moved."""

    def optimizer():
        return keras.optimizers.Adam(0.1, use_ema=True, ema_overwrite_frequency=frequency)

    with mode(is_graph=False):
        trained_model(use_hashtable=False, optimizer=optimizer())
        with pytest.raises(NotImplementedError, match="use_ema .*EmbeddingVariable.*without it"):
            trained_model(use_hashtable=True, optimizer=optimizer())
    growing = sok_compat.DynamicVariable(2, "ones")
    pairs = [(tf.IndexedSlices(tf.ones([0, 2]), tf.zeros([0], tf.int64)), growing)]
    with pytest.raises(NotImplementedError, match="use_ema .*dynamic.*without it"):
        optimizer().apply_gradients(pairs)


@pytest.mark.skipif(not has_keras_2, reason="averages of Keras 3 are planes of tables")
def test_averages_of_tables_are_in_no_checkpoint(tmp_path):
    """Nor are those of a table that is not in it."""
    sok_compat.init()
    tables = [sok_compat.Variable([[1.0, 1.0]] * 8, name=name) for name in ("one", "other")]
    optimizer = keras.optimizers.SGD(0.5, use_ema=True)
    optimizer.build(tables)
    for saved in tables:
        checkpoint = tf.train.Checkpoint(table=saved, optimizer=optimizer)
        with pytest.raises(NotImplementedError, match="average/one.* table one.* use_ema=False"):
            checkpoint.save(tmp_path / "model")


@pytest.mark.skipif(not has_keras_2, reason="slots of Keras 3 have other names")
def test_slots_in_a_scope_of_a_tables_name_are_saved(tmp_path):
    """They have as many columns as the table, perhaps, and are none of its."""
    sok_compat.init()
    table = sok_compat.DynamicVariable(2, "ones", name="user")
    with tf.name_scope("user"):
        kernel = tf.Variable(tf.ones([3, 2]), name="kernel")
    optimizer = keras.optimizers.Adam(0.5)
    optimizer.build([kernel])
    checkpoint = tf.train.Checkpoint(table=table, kernel=kernel, optimizer=optimizer)
    optimizer.variables[1].assign(tf.ones([3, 2]))
    path = checkpoint.save(tmp_path / "model")
    optimizer.variables[1].assign(tf.zeros([3, 2]))
    checkpoint.restore(path).assert_consumed()
    np.testing.assert_array_equal(optimizer.variables[1], np.ones([3, 2]))


@pytest.mark.parametrize("use_hashtable", [True, False], ids=["hash", "direct"])
def test_slots(use_hashtable):
    """A slot's rows belong to keys as the table's do."""
    with mode(is_graph=False):
        optimizer = keras.optimizers.legacy.Adagrad(0.1, initial_accumulator_value=0.5)
        layer = LayerCase("static", use_hashtable, "int64").make_layer()
        sok_compat.OptimizerScope([layer.embedding_variable]).build(optimizer)
        step, slot = optimizer.get_weights()
        refused = pytest.raises(NotImplementedError, match="accumulator.*keys")
        with refused if use_hashtable else contextlib.nullcontext():
            optimizer.set_weights([step, slot])


def test_what_a_function_or_a_step_computes_can_be_assigned():
    with mode(is_graph=False):
        _, table = trained_model(use_hashtable=True)
        before = rows_of(table)
        tf.function(table.assign)(2.0 * table.value())
        assert rows_of(table) == {key: [2 * x for x in row] for key, row in before.items()}
