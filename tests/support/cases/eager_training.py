# SPDX-License-Identifier: Apache-2.0
"""The tables' side of `train_both`, in eager mode: the same model, batches and steps."""

import numpy as np
import tensorflow as tf

import sok_compat as sok
from tests.support.side_by_side import GLOBAL_BATCH, Side, random_batch, random_dense_weights


def train_eagerly(layer_cases, optimizer_case, steps, as_function, seed=3):
    """The Side of tables; without slices and gradients, which a session would fetch.

    Args:
      layer_cases: as of `train_both`, as the next two and seed.
      optimizer_case: see there.
      steps: see there.
      as_function: whether a step is a tf.function.
      seed: see there.
    """
    rng = np.random.default_rng(seed)
    keys = [case.keys(rng) for case in layer_cases]
    sok.Init(global_batch_size=GLOBAL_BATCH, seed=11)
    layers = [case.make_layer() for case in layer_cases]
    tables = [layer.embedding_variable for layer in layers]
    weights = [tf.Variable(w.astype(np.float32)) for w in random_dense_weights(rng, layer_cases)]
    optimizer = optimizer_case.make()

    def step(labels, *inputs):
        with tf.GradientTape() as tape:
            outputs = [layer(x) for layer, x in zip(layers, inputs)]
            features = [
                tf.reshape(output, [-1, case.features_per_sample])
                for case, output in zip(layer_cases, outputs)
            ]
            logits = tf.tanh(tf.concat(features, axis=1) @ weights[0]) @ weights[1]
            loss = tf.reduce_sum((logits - labels) ** 2) / GLOBAL_BATCH
        gradients = tape.gradient(loss, tables + weights)
        optimizer_case.apply(optimizer, gradients[: len(tables)], tables)
        for gradient, weight in zip(gradients[len(tables) :], weights):
            weight.assign_sub(0.05 * gradient)
        return loss, outputs

    if as_function:
        step = tf.function(step, reduce_retracing=True)
    side = Side([], [], [], [], [])
    for size, has_keys in steps:
        labels = tf.constant(rng.normal(size=[size, 1]), tf.float32)
        batches = [
            random_batch(case, rng, size, some_keys, has_keys)
            for case, some_keys in zip(layer_cases, keys)
        ]
        loss, outputs = step(labels, *map(_as_tensor, batches))
        side.losses.append(loss.numpy())
        side.outputs.append([output.numpy() for output in outputs])
    for table in tables:
        keys_in_use, rows = table.export()
        side.rows.append(dict(zip(keys_in_use.numpy().tolist(), rows.numpy())))
    return side


def _as_tensor(batch):
    if isinstance(batch, tf.compat.v1.SparseTensorValue):
        return tf.SparseTensor.from_value(batch)
    return tf.constant(batch)
