# SPDX-License-Identifier: Apache-2.0
"""Keras models with tables, compiled and fitted, equal the same models on ordinary variables."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat.runtime.tf_versions import has_keras_2, variable_of
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from tests.support.assertions import TOLERANCE
from tests.support.cases.keras_models import (
    DENSE,
    KEYS,
    SPARSE,
    STYLES,
    PlainEmbedding,
    Top,
    batches,
)
from tests.support.cases.layer_cases import MAX_NNZ, SLOT_NUM, LayerCase
from tests.support.processes.subprocess_python import run_python

of_keras_2 = pytest.mark.skipif(not has_keras_2, reason="Keras 3 has nothing like it")


def models(case, style):
    """(model on a table, the same on an ordinary variable, the table)."""
    layer = case.make_layer(capacity=200)
    plain = PlainEmbedding(case, case.rows_of(layer, KEYS))
    table_model, plain_model = (STYLES[style](case, e) for e in (layer, plain))
    return table_model, plain_model, layer.embedding_variable


def adam_of_tables():
    return (sok_compat.tf.keras.optimizers if has_keras_2 else keras.optimizers).Adam(0.01)


def adam():
    return (keras.optimizers.legacy if has_keras_2 else keras.optimizers).Adam(0.01)


def assert_trains_alike(case, table_model, plain_model):
    known = batches(case, KEYS, seed=1)
    np.testing.assert_allclose(
        table_model.fit(known, epochs=3, verbose=0).history["loss"],
        plain_model.fit(known, epochs=3, verbose=0).history["loss"],
        rtol=TOLERANCE,
    )


def assert_fits_alike(case, table_model, plain_model, table):
    assert_trains_alike(case, table_model, plain_model)
    num_keys = table.num_keys().numpy()
    assert 20 < num_keys <= 48
    unknown = batches(case, [key + 1000 for key in KEYS], seed=2)
    table_model.evaluate(unknown, verbose=0)
    assert table_model.predict(unknown, verbose=0).shape == (19, 1)
    assert table.num_keys().numpy() == num_keys
    known = batches(case, KEYS, seed=3)
    for method in ("evaluate", "predict"):
        actual, expected = (
            getattr(m, method)(known, verbose=0) for m in (table_model, plain_model)
        )
        np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize(
    "case, run_eagerly",
    [(SPARSE, False), (DENSE, False), (DENSE, True)],
    ids=["sparse-function", "dense-function", "dense-eager"],
)
@pytest.mark.parametrize("style", STYLES)
def test_styles(sok, style, case, run_eagerly):
    table_model, plain_model, table = models(case, style)
    table_model.compile(adam_of_tables(), "mse", run_eagerly=run_eagerly)
    plain_model.compile(adam(), "mse", run_eagerly=run_eagerly)
    if style == "subclassed" and not has_keras_2:  # it hands no `training` on, as Keras 3 does
        assert_trains_alike(case, table_model, plain_model)
    else:
        assert_fits_alike(case, table_model, plain_model, table)
    trained = [variable_of(weight) for weight in table_model.trainable_variables]
    assert [v is table for v in trained] == [True, False, False]


@of_keras_2
def test_ragged_inputs(sok):
    """From a RaggedTensor, which Keras splits into batches, as from batches of SparseTensors."""
    data = batches(SPARSE, KEYS, seed=1)
    bags = tf.concat([tf.RaggedTensor.from_sparse(keys) for keys, _ in data], axis=0)
    labels = tf.concat([batch for _, batch in data], axis=0)
    losses = []
    for is_ragged in (False, True):
        keras.backend.clear_session()
        layer = SPARSE.make_layer()
        model = STYLES["functional"](SPARSE, layer)
        if is_ragged:
            inputs = keras.Input([SLOT_NUM, None], dtype=tf.int64, ragged=True)
            model = keras.Model(inputs, Top(layer).call(inputs))
        model.compile(adam_of_tables(), "mse")
        samples = tf.RaggedTensor.from_uniform_row_length(bags, SLOT_NUM)
        args = dict(x=samples, y=labels, batch_size=8) if is_ragged else dict(x=data)
        losses.append(model.fit(**args, shuffle=False, epochs=2, verbose=0).history["loss"])
    np.testing.assert_allclose(*losses, rtol=TOLERANCE)


@of_keras_2
@pytest.mark.thorough
@pytest.mark.parametrize("case, style", [(SPARSE, "functional"), (DENSE, "subclassed-training")])
def test_graph_mode(sok, case, style):
    """Keras of TF1 style gives the same losses, and inserts nothing in evaluation where the model
    hands `training` on."""
    code = f"""
        import json
        import tensorflow as tf
        import sok_compat as sok
        from sok_compat.runtime.tf_versions import keras_of_layers as keras
        from tests.support.cases import keras_models
        from tests.support.cases.layer_cases import LayerCase

        tf.compat.v1.disable_eager_execution()
        sok.Init(global_batch_size=8, seed=7)
        case = {case!r}
        layer = case.make_layer(capacity=200)
        model = keras_models.STYLES[{style!r}](case, layer)
        model.compile(sok.tf.keras.optimizers.Adam(0.01), "mse")
        data = keras_models.batches(case, keras_models.KEYS, 1, sizes=(8, 8))
        losses = model.fit(data, epochs=3, verbose=0)
        num_keys = layer.embedding_variable.num_keys()
        numbers = [keras.backend.eval(num_keys)]
        other_keys = [key + 1000 for key in keras_models.KEYS]
        model.evaluate(keras_models.batches(case, other_keys, 2), verbose=0)
        numbers.append(keras.backend.eval(num_keys))
        print(json.dumps([losses.history["loss"], numbers], default=int))
        """
    losses, numbers = json.loads(run_python(code))
    table_model, _, table = models(case, style)
    table_model.compile(sok.tf.keras.optimizers.Adam(0.01), "mse")
    data = batches(case, KEYS, seed=1, sizes=(8, 8))  # TF1's Keras does not weigh batches by size
    expected = table_model.fit(data, epochs=3, verbose=0).history["loss"]
    np.testing.assert_allclose(losses, expected, rtol=TOLERANCE)
    assert numbers[0] == table.num_keys().numpy()
    assert (numbers[1] == numbers[0]) == (style == "subclassed-training")


RATES = {"SGD": 0.1, "Adagrad": 0.1, "Adam": 0.01}
MODULES = ("legacy", "") if has_keras_2 else ("",)


@pytest.mark.thorough
@pytest.mark.parametrize("is_built_in_scope", [False, True], ids=["outside", "built in scope"])
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module or "newer")
@pytest.mark.parametrize("name", RATES)
def test_stock_optimizers(sok, module, name, is_built_in_scope):
    def make():
        found = getattr(keras.optimizers, module) if module else keras.optimizers
        return getattr(found, name)(RATES[name])

    table_model, plain_model, table = models(DENSE, "functional")
    optimizer = make()
    if is_built_in_scope:
        if not has_keras_2:
            pytest.skip("the scope takes variables of TensorFlow")
        sok.OptimizerScope(table_model.trainable_variables).build(optimizer)
    table_model.compile(optimizer, "mse")
    plain_model.compile(make(), "mse")
    assert_trains_alike(DENSE, table_model, plain_model)
    variables = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
    slots = [variable_of(v) for v in variables if tuple(v.shape) == tuple(table.shape)]
    assert all(type(v).__name__ == "SlotVariable" for v in slots)


@of_keras_2
def test_build_wants_a_keras_optimizer(sok):
    with pytest.raises(TypeError, match="Keras optimizer, got int"):
        sok.OptimizerScope([]).build(3)


@pytest.mark.parametrize("clone", ["clone_model", "from_config"])
def test_copies_have_tables_of_their_own(sok, clone):
    layer = DENSE.make_layer(embedding_initializer=keras.initializers.RandomNormal(seed=2))
    inputs = keras.Input([SLOT_NUM, MAX_NNZ], dtype=tf.int64)
    model = keras.Model(inputs, layer(inputs))
    if clone == "clone_model":
        copy = keras.models.clone_model(model)
    else:
        types = {"All2AllDenseEmbedding": sok.All2AllDenseEmbedding}
        copy = keras.Model.from_config(model.get_config(), custom_objects=types)
    table = copy.layers[-1].embedding_variable
    assert table is not layer.embedding_variable and table.name != layer.embedding_variable.name
    keys = tf.zeros([1, SLOT_NUM, MAX_NNZ], tf.int64)
    np.testing.assert_array_equal(model(keys).shape, copy(keys).shape)
    assert copy.layers[-1].get_config() == layer.get_config()
    lines = []
    copy.summary(print_fn=lambda line, **_: lines.append(line))
    assert re.search(r"192 +\(768.00 B", "\n".join(lines))  # 48 rows of 4 floats


def test_training_follows_keras(sok):
    """As Dropout: what an outer call or the learning phase says, else the layer's default."""
    layer = DENSE.make_layer()
    table = layer.embedding_variable

    def num_keys_after(call, key):
        call(tf.fill([1, SLOT_NUM, MAX_NNZ], tf.constant(key, tf.int64)))
        return table.num_keys().numpy()

    model = STYLES["functional"](DENSE, layer)
    assert num_keys_after(layer, 1) == 1  # True by default
    assert num_keys_after(lambda x: layer(x, training=False), 2) == 1
    assert num_keys_after(lambda x: model(x, training=False), 3) == 1
    assert num_keys_after(lambda x: model(x, training=True), 4) == 2
    assert num_keys_after(lambda x: model(x, training=tf.constant(False)), 5) == 2

    @tf.function
    def step(x, training):
        return model(x, training=training)

    assert num_keys_after(lambda x: step(x, tf.constant(False)), 6) == 2
    assert num_keys_after(lambda x: step(x, tf.constant(True)), 7) == 3
    assert num_keys_after(lambda x: step(x, False), 8) == 3
    if has_keras_2:
        keras.backend.set_learning_phase(0)
        assert num_keys_after(layer, 9) == 3


@of_keras_2
@pytest.mark.thorough
def test_several_models_and_sessions_of_keras(sok):
    """Models made one after the other, with clear_session in between, start with the same rows."""
    runs = []
    for _ in range(2):
        keras.backend.clear_session()
        first, second = (models(DENSE, "functional") for _ in range(2))
        for table_model, _, _ in (first, second):
            table_model.compile(sok_compat.optimizers.Adam(0.01), "mse")
        assert first[2].name != second[2].name
        data = batches(DENSE, KEYS, seed=1)
        with pytest.raises(ValueError, match="trains EmbeddingVariables only"):
            first[0].fit(data, verbose=0)
        for table_model, _, _ in (first, second):
            table_model.compile(keras.optimizers.legacy.SGD(0.1), "mse")
        runs.append([m.fit(data, verbose=0).history["loss"] for m in (first[0], second[0])])
    assert runs[0] == runs[1]


def test_files_of_keras_hold_whole_tables(sok, tmp_path):
    """Without a hash table; with the optimizer's slots."""
    case = LayerCase("static", False, "int64")
    model = STYLES["functional"](case, case.make_layer(capacity=48))
    types = {"All2AllDenseEmbedding": sok.All2AllDenseEmbedding}
    data = batches(case, KEYS, seed=1)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model.fit(data, verbose=0)
    model.save(str(tmp_path / "model.keras"))
    model.save_weights(str(tmp_path / "model.weights.h5"))
    before, losses = model.predict(data, verbose=0), model.fit(data, verbose=0).history["loss"]
    copy = keras.models.load_model(str(tmp_path / "model.keras"), custom_objects=types)
    for restore in (lambda: None, lambda: copy.load_weights(str(tmp_path / "model.weights.h5"))):
        restore()
        np.testing.assert_allclose(copy.predict(data, verbose=0), before, rtol=TOLERANCE)
        np.testing.assert_allclose(copy.fit(data, verbose=0).history["loss"], losses, TOLERANCE)


OF_ONE_KERAS = ["weights.h5", "folder"] if has_keras_2 else ["m.h5"]


@pytest.mark.parametrize("file", ["model.keras", "model.weights.h5", *OF_ONE_KERAS])
def test_files_of_keras_refuse_tables(sok, tmp_path, file):
    """They would hold rows without their keys, which no table could take back."""
    table_model, _, table = models(DENSE, "functional")
    save = table_model.save_weights if "weights" in file else table_model.save
    way_out = "save_weights" if has_keras_2 else "tf.train.Checkpoint"
    with pytest.raises(NotImplementedError, match=rf"\b{table.m_var_name}\b.*{way_out}"):
        save(str(tmp_path / file))
