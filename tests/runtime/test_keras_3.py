# SPDX-License-Identifier: Apache-2.0
"""Layers in models of Keras 3, where there is no Keras 2."""

from pathlib import Path

import pytest

from sok_compat.runtime.tf_versions import VERSION
from tests.support.processes.subprocess_python import run_python

pytestmark = pytest.mark.skipif(VERSION < (2, 16), reason="this TensorFlow brings Keras 2")
BEGIN = """
import os, re, resource, sys
sys.modules["tf_keras"] = None
os.chdir({folder!r})
import numpy as np
import tensorflow as tf
import sparse_operation_kit as sok
keras = tf.keras
rng = np.random.default_rng(1)
KEYS = np.append(np.arange(48), rng.integers(0, 48, 144)).reshape(64, 3)  # all keys come
LABELS = rng.normal(size=(64, 1)).astype("float32")


def compiled(embedding, optimizer):
    inputs = keras.Input((3,), dtype="int64")
    rows = keras.layers.Flatten()(embedding(inputs))
    outputs = keras.layers.Dense(1, kernel_initializer="ones")(rows)
    model = keras.Model(inputs, outputs)
    model.compile(optimizer(), "mse")
    return model


def losses(model):
    model.train_on_batch(KEYS, LABELS)
    history = model.fit(KEYS, LABELS, batch_size=16, epochs=2, shuffle=False, verbose=0)
    return history.history["loss"]
"""
TRAINING = """
class Dense(keras.layers.Layer):  # gradients of all rows: keys that repeat are added up
    def build(self, shape):
        self.rows = self.add_weight(shape=(48, 4), initializer="ones", name="rows")

    def call(self, keys):
        return tf.one_hot(keys, 48) @ self.rows


sok.Init(global_batch_size=64)
optimizers = keras.optimizers
for optimizer in (
    lambda: optimizers.SGD(0.01, weight_decay=0.1),
    lambda: optimizers.Adam(0.01, clipnorm=1.0),
    lambda: optimizers.Adagrad(0.1),
    lambda: optimizers.Ftrl(0.1),
    lambda: optimizers.Muon(0.01, adam_weight_decay=None, exclude_layers=["rows"]),
):
    layer = sok.All2AllDenseEmbedding(1 << 28, 4, 3, 1, embedding_initializer="ones")
    ours, dense = (losses(compiled(each, optimizer)) for each in (layer, Dense()))
    np.testing.assert_allclose(ours, dense, rtol=1e-4, err_msg=optimizer().name)
    assert int(layer.embedding_variable.num_keys()) == 48
for refused, way_out in (
    (lambda: optimizers.SGD(gradient_accumulation_steps=2), "leave it out"),
    (lambda: optimizers.Adafactor(0.01), "for each declared row.*Take another optimizer"),
    (lambda: optimizers.Muon(0.01), "adam_weight_decay=None"),
    (lambda: optimizers.ScheduleFreeAdamW(0.01), "Take another optimizer"),
):
    layer = sok.All2AllDenseEmbedding(1 << 20, 4, 3, 1)
    try:
        losses(compiled(layer, refused))
    except NotImplementedError as error:
        assert re.search(way_out, str(error)), error
    else:
        raise AssertionError(way_out)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2**21)
"""
CHECKPOINTS = """
sok.Init(global_batch_size=64)
for optimizer in (
    lambda: keras.optimizers.SGD(0.01, momentum=0.9),
    lambda: keras.optimizers.Adam(0.01),
):
    layer = sok.All2AllDenseEmbedding(1 << 28, 4, 3, 1)
    model = compiled(layer, optimizer)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
    losses(model)
    path, after = checkpoint.save("saved/model"), losses(model)
    checkpoint.restore(path).assert_consumed()
    np.testing.assert_allclose(losses(model), after, rtol=1e-5)
    for is_built in (False, True):  # a model of the same build, whose table has another name
        layer = sok.All2AllDenseEmbedding(1 << 28, 4, 3, 1)
        again = compiled(layer, optimizer)
        if is_built:
            again.optimizer.build(again.trainable_variables)
        status = tf.train.Checkpoint(model=again, optimizer=again.optimizer).restore(path)
        np.testing.assert_allclose(losses(again), after, rtol=1e-5)
        status.assert_consumed()
names = [name for name, shape in tf.train.list_variables(path) if shape[:1] == [48]]
print(len(names), layer.rows)
for save, file in (
    (model.save_weights, "model.weights.h5"), (model.save, "model.keras"), (model.save, "m.h5")
):
    try:
        save(file)
    except NotImplementedError as error:
        print("with tf.train.Checkpoint" in str(error) or "use tf.train.Checkpoint" in str(error))
try:
    model.get_weights()
except NotImplementedError as error:
    print(error)
"""
POOLED = """
sok.Init(global_batch_size=64)
layer = sok.DistributedEmbedding("mean", 100, 4, 2, 3, embedding_initializer="ones")
keys = tf.ragged.constant([[1, 2], [], [3], [4, 5, 6]], dtype=tf.int64)
optimizer = keras.optimizers.Adagrad(0.1)
with tf.GradientTape() as tape:
    loss = tf.reduce_sum(layer(keys))
gradients = tape.gradient(loss, layer.trainable_variables)
optimizer.apply_gradients(zip(gradients, layer.trainable_variables))
print(float(loss), float(tf.reduce_sum(layer(keys, training=False))) < 12)
copy = sok.DistributedEmbedding.from_config(layer.get_config())
print(copy.get_config()["embedding_initializer"])
found = set()
for strategy in (tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["CPU:0"])):
    for ids in (keys, keys.to_sparse()):
        is_sparse = isinstance(ids, tf.SparseTensor)
        with strategy.scope():
            inputs = keras.Input((None,), dtype="int64", sparse=is_sparse, ragged=not is_sparse)
            layer = sok.DistributedEmbedding("mean", 100, 4, 1, 3, embedding_initializer="ones")
            outputs = keras.layers.Dense(1, kernel_initializer="ones")(layer(inputs))
            model = keras.Model(inputs, keras.layers.Flatten()(outputs))
            model.compile(keras.optimizers.Adam(0.1), "mse")
        history = model.fit(ids, np.ones([4, 1]), batch_size=4, epochs=2, verbose=0).history
        found.add(tuple(np.round(history["loss"], 4)))
print(len(found), *found)
"""
EVALUATIONS = """
class Untold(keras.Model):  # its call does not take `training`
    def __init__(self, embedding):
        super().__init__()
        self.embedding, self.top = embedding, keras.layers.Dense(1)

    def call(self, keys):
        return self.top(keras.layers.Flatten()(self.embedding(keys)))


sok.Init(global_batch_size=64)
for run_eagerly in (False, True):
    layer = sok.All2AllDenseEmbedding(1 << 20, 4, 3, 1)
    model, num_keys = Untold(layer), []
    model.compile("sgd", "mse", run_eagerly=run_eagerly)
    for run in (
        lambda: model.evaluate(KEYS, LABELS, verbose=0),
        lambda: model.fit(KEYS, LABELS, verbose=0),
        lambda: model.predict(KEYS + 100, verbose=0),
        lambda: model(KEYS + 200),
        lambda: layer(KEYS + 300),
    ):
        run()
        num_keys.append(int(layer.embedding_variable.num_keys()))
    print(num_keys)
"""

UNDECLARED = """
sok.init()
optimizers = keras.optimizers
for optimizer in (
    lambda: optimizers.SGD(0.1, momentum=0.9),
    lambda: optimizers.Adam(0.1),
    lambda: optimizers.Adagrad(0.1),
    lambda: optimizers.Ftrl(0.1, l1_regularization_strength=0.01),
    lambda: optimizers.RMSprop(0.1, centered=True),
):
    variable = sok.DynamicVariable(dimension=4, initializer="ones")
    dense = tf.Variable(tf.ones([48, 4]))
    rows_of = (
        lambda keys: sok.lookup_sparse(variable, keys, combiners="sum"),
        lambda keys: tf.one_hot(keys.values, 48) @ dense,
    )
    for rows, trained in zip(rows_of, (variable, dense)):
        by = optimizer()
        for keys in (np.arange(48), [3, 9, 3], [47, 0, 9]):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.sin(rows(tf.RaggedTensor.from_row_lengths(
                    tf.constant(keys, tf.int64), tf.ones(len(keys), tf.int64)
                ))))
            by.apply_gradients([(tape.gradient(loss, trained), trained)])
    keys = tf.RaggedTensor.from_row_lengths(np.arange(48), tf.ones(48, tf.int64))
    ours, dense = (rows(keys).numpy() for rows in rows_of)
    np.testing.assert_allclose(ours, dense, rtol=1e-4, atol=1e-6, err_msg=by.name)
print("trained")
"""
EMBEDDINGS = """
from distributed_embeddings.python.layers.embedding import ConcatOneHotEmbedding, Embedding
from distributed_embeddings import DistributedEmbedding, IntegerLookup

adam = lambda: keras.optimizers.Adam(0.01)
ours = compiled(Embedding(48, 4, embeddings_initializer="ones"), adam)
stock = compiled(keras.layers.Embedding(48, 4, embeddings_initializer="ones"), adam)
np.testing.assert_allclose(losses(ours), losses(stock), rtol=1e-4)
ours.save_weights("embedding.weights.h5")
before = ours.predict(KEYS, verbose=0)
losses(ours)
ours.load_weights("embedding.weights.h5")
np.testing.assert_array_equal(ours.predict(KEYS, verbose=0), before)


def distributed(make):
    inputs = [keras.Input((), dtype="int64") for _ in range(3)]
    rows = make([Embedding(48, 4, "ones"), Embedding(48, 4, "ones"), Embedding(48, 2, "ones")])
    joined = keras.layers.Concatenate()(rows(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="ones")(joined))
    # Others square slices of plain layers before they add them up.
    model.compile(keras.optimizers.SGD(0.001, momentum=0.9), "mse")
    return model


class OneByOne(keras.layers.Layer):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def call(self, inputs):
        return [layer(ids) for layer, ids in zip(self.layers, inputs)]


KEYS = [np.resize(np.arange(48), 64), np.arange(64) % 16, np.arange(64) % 32]
joined, plain = distributed(DistributedEmbedding), distributed(OneByOne)
np.testing.assert_allclose(losses(joined), losses(plain), rtol=1e-4)
assert [tuple(weight.shape) for weight in joined.trainable_weights[:2]] == [(96, 4), (48, 2)]
checkpoint = tf.train.Checkpoint(model=joined, optimizer=joined.optimizer)
path, before = checkpoint.save("saved/joined"), losses(joined)
again = distributed(DistributedEmbedding)
tf.train.Checkpoint(model=again, optimizer=again.optimizer).restore(path)
np.testing.assert_allclose(losses(again), before, rtol=1e-5)
joined.save_weights("joined.weights.h5")
again.load_weights("joined.weights.h5")
np.testing.assert_array_equal(again.predict(KEYS, verbose=0), joined.predict(KEYS, verbose=0))

KEYS = np.append(np.arange(48), rng.integers(0, 48, 144)).reshape(64, 3)
inputs, numbered = keras.Input((3,), dtype="int64"), IntegerLookup(100)
pooled = keras.Model(inputs, Embedding(101, 2, combiner="sum")(numbered(inputs)))
print(pooled(KEYS * 1000).shape, numbered.get_vocabulary()[:3])
print(ConcatOneHotEmbedding([48, 48, 48], 2)(KEYS).shape)
"""


_OF_DISTRIBUTED_EMBEDDINGS = (
    *("distributed_embedding", "embedding_lookup", "integer_lookup", "row_dtypes_of_layers"),
    "saved_layers",
)
OF_BOTH_KERASES = [
    *(f"distributed_embeddings/test_{name}" for name in _OF_DISTRIBUTED_EMBEDDINGS),
    *("eager/test_keras_models", "eager/test_checkpoints", "eager/test_functions"),
    *("eager/test_resources", "eager/test_training", "layers/test_input_errors"),
    *("layers/test_layer_handles", "layers/test_lookup", "layers/test_ragged_inputs"),
    *("layers/test_tf_distributed_embedding", "lookup/test_xla"),
    *("optimizers/test_dense_gradients", "optimizers/test_keras_optimizers"),
    *("optimizers/test_moving_averages", "optimizers/test_optimizer_scope"),
    *("optimizers/test_sok_optimizers", "optimizers/test_stock_updates"),
    *("optimizers/test_training_idioms", "runtime/test_strategies"),
    *("saver/test_headed_dumps", "saver/test_steps_beside_saves"),
    *("sok2/test_eviction_in_eager_mode", "sok2/test_variables", "tables/test_key_history"),
    *("tables/test_row_dtypes", "tables/test_table_training", "tables/test_undeclared_capacity"),
    *("variables/test_embedding_variable", "variables/test_indices_in_graphs"),
    *("variables/test_initializers", "variables/test_kept_rows", "variables/test_row_updates"),
    *("variables/test_rows_of_gradients", "variables/test_stock_initializers"),
    "variables/test_writes_by_index",
]


def run(folder, script):
    return run_python(BEGIN.format(folder=str(folder)) + script, is_fresh=True).splitlines()


def test_training_is_that_of_dense_rows(tmp_path):
    assert run(tmp_path, TRAINING)[-1] == "True"


def test_tables_without_a_capacity(tmp_path):
    assert run(tmp_path, UNDECLARED)[-1] == "trained"


def test_checkpoints_hold_the_table_with_its_slots(tmp_path):
    *_, names, weights, model, older, refused = run(tmp_path, CHECKPOINTS)
    assert names.startswith("4 <TableVariable path=EmbeddingVariable")  # keys, rows and two slots
    assert (weights, model, older) == ("True", "True", "True")
    assert "do not tell their keys" in refused


@pytest.mark.thorough
def test_models_train_as_those_of_keras_2():
    """The tests of models, and others that use Keras, once more in a process without Keras 2."""
    tests = Path(__file__).parents[1]
    files = [str(tests / f"{name}.py") for name in OF_BOTH_KERASES]
    run_python(
        f"""
        import os, sys
        os.environ["SOK_TEST_KERAS"] = "3"
        import pytest
        os.dup2(2, 1)  # what fails is shown
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--at-most", "2"]
        sys.exit(pytest.main([*options, *{files!r}]))
        """,
        is_fresh=True,
    )


def test_pooled_bags(tmp_path):
    *_, pooled, initializer, losses = run(tmp_path, POOLED)
    assert (pooled, initializer) == ("12.0 True", "ones")
    assert losses.startswith("1 ")  # with a strategy and without, sparse and ragged


def test_a_model_that_does_not_take_training(tmp_path):
    """A layer called by itself inserts keys, as in Keras 2."""
    assert run(tmp_path, EVALUATIONS)[-2:] == ["[0, 48, 48, 48, 96]"] * 2


def test_layers_of_distributed_embeddings(tmp_path):
    pooled, concatenated = run(tmp_path, EMBEDDINGS)[-2:]
    assert pooled == "(64, 2) [-1, 0, 1000]"
    assert concatenated == "(64, 3, 2)"


def test_optimizers_on_tables_beside_keras_2():
    """A table without a layer; tf.keras is Keras 3 also where tf-keras is installed."""
    run_python(
        """
        import os
        os.environ.pop("TF_USE_LEGACY_KERAS", None)
        import tensorflow as tf
        from sok_compat.tables import Table
        from tests.support.lookups import lookup
        from tests.support.processes.subprocess_python import peak_mib

        optimizers = tf.keras.optimizers
        for make in (
            lambda: optimizers.Adam(0.1),
            lambda: optimizers.SGD(0.1, momentum=0.9),
            lambda: optimizers.LossScaleOptimizer(optimizers.Adagrad(0.1), 8.0),
        ):
            ours, theirs, table = make(), make(), Table(10**9, 16, "ones", name="table")
            keys, plain = tf.constant([5, 10**12, 7], tf.int64), tf.Variable(tf.ones([3, 16]))
            for _ in range(3):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(lookup(table, keys, insert=True) ** 2)
                ours.apply([tape.gradient(loss, table)], [table])
                theirs.apply([2 * plain], [plain])
            assert table.slots
            error = tf.abs(lookup(table, keys, insert=False) - plain)
            assert float(tf.reduce_max(error)) < 1e-5
        assert peak_mib() < 2000
        """,
        is_fresh=True,
    )
