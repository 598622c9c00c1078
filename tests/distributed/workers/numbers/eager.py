# SPDX-License-Identifier: Apache-2.0
"""Trains in eager mode, in functions and with Keras on this rank's part of the global batches.

Arguments: the names of the models.
"""

import functools
import sys

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.ranks import exchange
from sok_compat.runtime.tf_versions import keras
from tests.distributed.workers.global_batch import GLOBAL_BATCH, division, part
from tests.distributed.workers.ranks import RANK, SIZE, report
from tests.support.cases.layer_cases import LayerCase

STEPS = ["equal", "uneven", "none for the first", "equal"]
CAPACITY = 64
CASES = [
    LayerCase("sum", True, "int64"),
    LayerCase("mean", False, "int64", 3),
    LayerCase("static", True, "uint32", 8),
    LayerCase("dynamic", False, "int64", 5),
]
OPTIMIZERS = {
    "legacy Adagrad": lambda: keras.optimizers.legacy.Adagrad(0.05),
    "Adam": lambda: keras.optimizers.Adam(0.01),
    "sok Adam": lambda: sok.optimizers.Adam(0.01),
}

TRAININGS = {"eager": ["legacy Adagrad", "Adam"], "function": ["Adam", "sok Adam"]}


def as_tensor(batch):
    if isinstance(batch, tf.compat.v1.SparseTensorValue):
        return tf.SparseTensor.from_value(batch)
    return tf.constant(batch)


def make_batches(cases, seed=3):
    """[steps][cases] of this rank's parts."""
    rng = np.random.default_rng(seed)
    keys = [case.keys(rng) for case in cases]
    steps = []
    for kind in STEPS:
        begins = division(kind, SIZE)
        batches = [case.batch(rng, GLOBAL_BATCH, k) for case, k in zip(cases, keys)]
        steps.append(
            [
                as_tensor(part(case, batch, begins[RANK], begins[RANK + 1]))
                for case, batch in zip(cases, batches)
            ]
        )
    return steps


def rows_of(tables, cases):
    """[tables] of {key: row}; of direct tables, the keys that one process has room for."""
    seen = []
    for table, case in zip(tables, cases):
        keys, rows = (tensor.numpy() for tensor in table.export())
        pairs = zip(keys.tolist(), rows)
        seen.append({k: row for k, row in pairs if case.use_hashtable or k < CAPACITY})
    return seen


class Model:
    """Layers of all kinds and one loss for each sample."""

    def __init__(self, cases=CASES):
        self.cases = cases
        sok.Init(global_batch_size=GLOBAL_BATCH, seed=11)
        self.layers = [case.make_layer(CAPACITY) for case in cases]
        self.tables = [layer.embedding_variable for layer in self.layers]

    def losses(self, inputs):
        features = [
            tf.reshape(layer(x), [-1, case.features_per_sample])
            for case, layer, x in zip(self.cases, self.layers, inputs)
        ]
        outputs = tf.concat(features, axis=1)
        weights = tf.range(1, outputs.shape[1] + 1, dtype=tf.float32)
        return tf.reduce_sum((1 + tf.sin(outputs)) * weights, axis=1)

    def gradients(self, losses, tape):
        scale = tf.ones_like(losses) / GLOBAL_BATCH
        return tape.gradient(losses, self.tables, output_gradients=scale)

    def seen(self, losses):
        return {"losses": losses, "rows": rows_of(self.tables, self.cases)}


def train(mode, optimizer_name):
    """All kinds of layers, with one optimizer."""
    model = Model()
    optimizer = OPTIMIZERS[optimizer_name]()

    def step(*inputs):
        with tf.GradientTape() as tape:
            losses = model.losses(inputs)
        gradients = model.gradients(losses, tape)
        with sok.OptimizerScope(model.tables):
            optimizer.apply_gradients(zip(gradients, model.tables))
        return losses

    if mode == "function":
        step = tf.function(step, reduce_retracing=True)
    return model.seen([step(*inputs).numpy() for inputs in make_batches(model.cases)])


def train_functions_called_eagerly(is_retraced):
    """The forward pass is a function with a nested one, the backward pass another call."""
    model = Model(CASES[:2])
    optimizer = keras.optimizers.legacy.SGD(0.1)

    @tf.function(reduce_retracing=not is_retraced)
    def nested(inputs):
        return model.losses(inputs)

    @tf.function(reduce_retracing=not is_retraced)
    def forward(*inputs):
        return nested(inputs) + nested(inputs)

    seen = []
    for inputs in make_batches(model.cases):
        if is_retraced and RANK == SIZE - 1:  # traces that this rank alone makes
            for _ in range(3):
                tf.function(lambda x: model.losses(x), autograph=False).get_concrete_function(
                    inputs
                )
        with tf.GradientTape(persistent=True) as tape:
            losses = forward(*inputs)
        gradients = [model.gradients(losses, tape) for _ in range(2)]
        for of_tables in gradients:
            optimizer.apply_gradients(zip(of_tables, model.tables))
        seen.append(losses.numpy())
    return model.seen(seen)


def train_with_control_flow():
    """A branch that is not taken, a lookup in a loop, two gradients in one function."""
    model = Model(CASES[2:])
    optimizer = keras.optimizers.legacy.SGD(0.1)

    @tf.function(reduce_retracing=True)
    def step(is_odd, *inputs):
        with tf.GradientTape(persistent=True) as tape:
            chosen = tf.cond(
                is_odd, lambda: model.losses(inputs), lambda: 2.0 * model.losses(inputs)
            )
            losses = model.losses(inputs)
        for target in (chosen, losses, losses):
            optimizer.apply_gradients(zip(model.gradients(target, tape), model.tables))
        for _ in tf.range(3):
            losses += 0.1 * model.losses(inputs)
        return losses

    batches = make_batches(model.cases)
    return model.seen([step(tf.constant(i % 2 == 1), *x).numpy() for i, x in enumerate(batches)])


def fit(run_eagerly, optimizer_name):
    """A Keras model whose dense layer stays as it is; its loss is a sum over samples."""
    case = CASES[2]
    sok.Init(global_batch_size=GLOBAL_BATCH, seed=11)
    layer = case.make_layer(CAPACITY)
    inputs = keras.Input([2, case.max_nnz], dtype=tf.uint32)
    dense = keras.layers.Dense(1, kernel_initializer="ones", trainable=False)
    model = keras.Model(inputs, dense(keras.layers.Flatten()(layer(inputs))))
    optimizer = OPTIMIZERS[optimizer_name]()
    sok.OptimizerScope(model.trainable_variables).build(optimizer)
    loss = keras.losses.MeanSquaredError(reduction="sum")
    model.compile(optimizer, loss, run_eagerly=run_eagerly)
    rng = np.random.default_rng(5)
    keys = case.keys(rng)
    batches = np.stack([case.batch(rng, GLOBAL_BATCH, keys) for _ in range(4)])
    labels = rng.normal(size=[4, GLOBAL_BATCH, 1])
    mine = slice(RANK * GLOBAL_BATCH // SIZE, (RANK + 1) * GLOBAL_BATCH // SIZE)
    data = tf.data.Dataset.from_tensor_slices((batches[:, mine], labels[:, mine]))
    history = model.fit(data, epochs=2, verbose=0).history["loss"]
    evaluated = model.evaluate(data, verbose=0)
    predicted = model.predict(data, verbose=0).reshape([4, -1])
    return {
        "losses": list(predicted),
        "sums": [*history, evaluated],
        "rows": rows_of([layer.embedding_variable], [case]),
    }


def models():
    """{name: how it is trained}."""
    found = {
        f"{mode}, {optimizer}": functools.partial(train, mode, optimizer)
        for mode, optimizers in TRAININGS.items()
        for optimizer in optimizers
    }
    for run_eagerly in (True, False):
        for optimizer in ("legacy Adagrad", "Adam"):
            name = f"fit {'eagerly' if run_eagerly else 'in a function'}, {optimizer}"
            found[name] = functools.partial(fit, run_eagerly, optimizer)
    for name, is_retraced in (("called eagerly", False), ("retraced on one rank", True)):
        found[f"functions {name}"] = functools.partial(train_functions_called_eagerly, is_retraced)
    found["control flow"] = train_with_control_flow
    return found


if __name__ == "__main__":
    # Several functions for each model: most of the time would go into rewriting their graphs.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    if SIZE == 4:  # every exchange in several parts
        exchange.MOST_BYTES = 4096
    train_of, seen_of_each = models(), {}
    for model_name in sys.argv[1:]:
        keras.backend.clear_session()  # tables have the same names, and rows, whatever came before
        seen_of_each[model_name] = train_of[model_name]()
    report(seen_of_each)
