# SPDX-License-Identifier: Apache-2.0
"""tf.distribute strategies of one replica train as a script without a strategy does."""

import contextlib
import functools

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import has_keras_2
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.tables import Table
from sok_compat.tables.slots.registry import slot_for
from tests.support.assertions import TOLERANCE
from tests.support.cases.keras_models import DENSE, KEYS, SPARSE, STYLES, batches
from tests.support.processes.subprocess_python import run_python

legacy = keras.optimizers.legacy
STRATEGIES = {
    "mirrored": lambda: tf.distribute.MirroredStrategy(["CPU:0"]),
    "one device": lambda: tf.distribute.OneDeviceStrategy("CPU:0"),
    "multi-worker": tf.distribute.MultiWorkerMirroredStrategy,
}
NO_STRATEGY = tf.distribute.get_strategy  # has the same methods
OPTIMIZERS = {
    "Adam": lambda: keras.optimizers.Adam(0.01),
    "AdamW": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1),
    "legacy Adagrad": lambda: legacy.Adagrad(0.1),
    "sok Adam": lambda: sok.tf.keras.optimizers.Adam(0.01),
}
CAPACITY, DIM, BATCH, NUM_STEPS = 40, 4, 6, 4
every_strategy = pytest.mark.parametrize("make_strategy", STRATEGIES.values(), ids=STRATEGIES)


@pytest.fixture(autouse=True)
def eager_names():
    """First values go by names, which start over."""
    keras.backend.clear_session()


def batches_of_keys():
    rng = np.random.default_rng(1)
    keys = np.minimum(*rng.integers(0, CAPACITY, [2, NUM_STEPS * BATCH]))
    labels = rng.normal(size=[NUM_STEPS * BATCH, 1]).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((keys, labels)).batch(BATCH)


def train(make_strategy, make_optimizer, *, made_in="scope", as_function=True, slots_in="scope"):
    """(losses, rows by key, dense weights) of a training loop of TensorFlow 2.

    Args:
      make_strategy: what gives the strategy.
      make_optimizer: of a Keras optimizer.
      made_in: where the table is made: in the strategy's 'scope', or 'before' it.
      as_function: whether strategy.run is called in a tf.function.
      slots_in: where the optimizer is made: in the 'scope', or 'before' it; or 'OptimizerScope'.
    """
    strategy = make_strategy()
    scopes = {"scope": strategy.scope, "before": contextlib.nullcontext}
    with scopes[made_in]():
        sok.Init(global_batch_size=BATCH, seed=3)
        layer = sok.All2AllDenseEmbedding(CAPACITY, DIM, 1, 1, dynamic_input=True)
    tables = [layer.embedding_variable]
    with strategy.scope():
        weights = tf.Variable(tf.ones([DIM, 1]))
    with scopes["before" if slots_in == "before" else "scope"]():
        optimizers = make_optimizer(), legacy.SGD(0.1)

    def step(keys, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((layer(keys) @ weights - labels) ** 2) / BATCH
        gradients = tape.gradient(loss, [*tables, weights])
        scope = sok.OptimizerScope(tables) if slots_in == "OptimizerScope" else None
        with scope or contextlib.nullcontext():
            optimizers[0].apply_gradients(zip(gradients[:1], tables))
        optimizers[1].apply_gradients(zip(gradients[1:], [weights]))
        return loss

    def run(keys, labels):
        return strategy.reduce("SUM", strategy.run(step, args=(keys, labels)), axis=None)

    run = tf.function(run) if as_function else run
    data = strategy.experimental_distribute_dataset(batches_of_keys())
    losses = [float(run(*batch)) for batch in data]
    keys, rows = (tensor.numpy() for tensor in tables[0].export())
    return losses, rows[keys.argsort()], weights.numpy()


@functools.cache
def trained_without(name, **how):
    keras.backend.clear_session()
    return train(NO_STRATEGY, OPTIMIZERS[name], **how)


def assert_same_training(make_strategy, name, **how):
    expected = trained_without(name, **how)
    keras.backend.clear_session()
    ours = train(make_strategy, OPTIMIZERS[name], **how)
    assert len(ours[0]) == NUM_STEPS and ours[0][0] != ours[0][-1]
    for actual, without in zip(ours, expected):
        np.testing.assert_allclose(actual, without, rtol=TOLERANCE, atol=1e-6)


@every_strategy
def test_trains_as_without_a_strategy(make_strategy):
    assert_same_training(make_strategy, "Adam")


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "Adam"])
def test_other_optimizers_do(name):
    assert_same_training(STRATEGIES["mirrored"], name)


@pytest.mark.parametrize("name, how", [
    ("Adam", dict(as_function=False)),
    ("legacy Adagrad", dict(as_function=False, made_in="before")),
    ("Adam", dict(made_in="before")),
    ("legacy Adagrad", dict(slots_in="before")),
    ("sok Adam", dict(slots_in="before", made_in="before")),
    ("Adam", dict(slots_in="OptimizerScope")),
    ("legacy Adagrad", dict(slots_in="OptimizerScope", made_in="before", as_function=False)),
], ids=str)  # fmt: skip
def test_wherever_things_are_made(name, how):
    assert_same_training(STRATEGIES["mirrored"], name, **how)


# Keras 3 builds a model in a strategy's scope by dense tensors in the place of sparse ones.
OF_FIT = [("mirrored", SPARSE if has_keras_2 else DENSE), ("multi-worker", DENSE)]


@pytest.mark.parametrize("kind, case", OF_FIT, ids=str)
def test_keras_fit(kind, case):
    def history(strategy):
        keras.backend.clear_session()
        with strategy.scope():
            sok.Init(global_batch_size=8, seed=3)
            model = STYLES["functional"](case, case.make_layer(capacity=200))
            model.compile(OPTIMIZERS["Adam"](), "mse")
        fitted = model.fit(batches(case, KEYS, seed=1), epochs=2, verbose=0).history["loss"]
        unknown = batches(case, [key + 1000 for key in KEYS], seed=2)
        predicted = model.predict(unknown, verbose=0)
        return fitted, predicted, model.evaluate(batches(case, KEYS, seed=3), verbose=0)

    for ours, expected in zip(history(STRATEGIES[kind]()), history(NO_STRATEGY())):
        np.testing.assert_allclose(ours, expected, rtol=TOLERANCE, atol=1e-6)


@every_strategy
def test_a_table_without_a_face(make_strategy):
    strategy = make_strategy()
    before = Table(8, 2, name="before")
    slot = slot_for(before, "sgd", "m")
    with strategy.scope():
        table = Table(8, 2, name="inside")
        for variable in (before, slot, table):
            assert strategy.extended.variable_created_in_scope(variable)
        dense = tf.Variable(1.0)
        assert strategy.extended.variable_created_in_scope(dense)
    assert not strategy.extended.variable_created_in_scope(tf.Variable(1.0))
    assert "SlotVariable" not in type(dense).__name__


@every_strategy
def test_variables_of_replicas(make_strategy):
    """As scripts ask for them: `variable.values[0].m_var_name`, if there are `values`."""
    sok.Init(global_batch_size=BATCH)

    def make():
        return sok.All2AllDenseEmbedding(CAPACITY, DIM, 1, 1).embedding_variable

    with make_strategy().scope():
        inside = make()
    assert inside.values == (inside,)
    assert not hasattr(make(), "values")


def test_several_replicas_are_refused():
    """Whatever is called under them; two devices that are there."""
    run_python(
        """
        import pytest
        import tensorflow as tf
        import sok_compat as sok
        from sok_compat.tables import Table

        cpus = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], cpus)
        embeddings = sok.embeddings
        makers = {
            "sok.Init": lambda: sok.Init(global_batch_size=8),
            "DistributedEmbedding": lambda: sok.DistributedEmbedding("sum", 10, 4, 1, 1),
            "All2AllDenseEmbedding": lambda: sok.All2AllDenseEmbedding(10, 4, 1, 1),
            "EmbeddingVariable": lambda: sok.core.EmbeddingVariable([10, 4], 0),
            "Table": lambda: Table(4, 2),
            "TFDistributedEmbedding": lambda: embeddings.TFDistributedEmbedding(6, 3),
            "get_global_replica_id": lambda: embeddings.embedding_ops.get_global_replica_id(
                "Strategy"
            ),
        }
        sok.Init(global_batch_size=8)
        many = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        for name, make in makers.items():
            with many.scope(), pytest.raises(RuntimeError) as error:
                make()
            assert f"{name} was called under" in str(error.value)
            assert "MirroredStrategy with 2 replicas" in str(error.value)
            assert "one device" in str(error.value) and "horovodrun -np 2" in str(error.value)
        """
    )


def test_several_replicas_that_use_a_table():
    """Two devices that are there: no update of a table that was made before gets through."""
    run_python(
        """
        import pytest
        import tensorflow as tf
        import sok_compat as sok
        from sok_compat.runtime.tf_versions import keras_of_layers as keras

        cpus = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], cpus)
        sok.Init(global_batch_size=4)
        layer = sok.All2AllDenseEmbedding(10, 4, 1, 1, dynamic_input=True)
        table = layer.embedding_variable
        keys = tf.constant([1, 2])
        refused = pytest.raises(RuntimeError, match="MirroredStrategy with 2 replicas")

        def train(strategy, make_optimizer):
            with strategy.scope():
                optimizer = make_optimizer()

            def step():
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(layer(keys) ** 2)
                optimizer.apply_gradients([(tape.gradient(loss, table), table)])

            strategy.run(step)
            strategy.run(tf.function(step))

        two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        for make in (keras.optimizers.SGD, sok.tf.keras.optimizers.Adam):
            before = layer(keys).numpy()
            with refused:
                train(two, make)
            assert (layer(keys).numpy() == before).all()
            train(tf.distribute.MirroredStrategy(["CPU:0"]), make)  # what the error says
            assert (layer(keys).numpy() != before).all()
        with two.scope(), refused:  # which compiling a model asks
            two.extended.variable_created_in_scope(table)
        """
    )
