# SPDX-License-Identifier: Apache-2.0
"""One model twice, on tables and on ordinary variables, trained on the same batches."""

import dataclasses

import numpy as np
import tensorflow as tf

import sok_compat as sok
from tests.support.cases.layer_cases import NUM_KEYS, replace_keys
from tests.support.sessions import initialized_session

GLOBAL_BATCH = 8
VARIED_STEPS = [  # (batch size, whether sparse layers get keys), over and over
    *((size, True) for size in (8, 5, 8, 1, 3, 8, 0, 7, 8)),
    (8, False),
]


@dataclasses.dataclass
class Side:
    """What one of the two models did."""

    losses: list  # [step]
    outputs: list  # [step][call]
    slices: list  # [step][table]: IndexedSlicesValue
    gradients: list  # [step][table]: {key: sum of its slices}
    rows: list  # [table]: {key: row} after the last step


@dataclasses.dataclass
class _Model:
    variables: list
    outputs: list
    loss: tf.Tensor
    gradients: list
    train: tf.Operation


def train_both(layer_cases, optimizer, steps, num_calls=1, seed=3, rewrites=False):
    """(tables' Side, ordinary variables' Side) after equal steps.

    Args:
      layer_cases: the layers of the model; their outputs meet in dense layers.
      optimizer: the OptimizerCase for the tables.
      steps: for each step (batch size, whether sparse layers get any keys).
      num_calls: how often each layer is called in a step, with a batch of its own each time.
      seed: of keys, batches and dense layers.
      rewrites: of the session; tests/layers/test_equals_tensorflow.py has them.
    """
    rng = np.random.default_rng(seed)
    keys = [case.keys(rng) for case in layer_cases]
    calls = list(range(len(layer_cases))) * num_calls  # the layer of each call
    cases = [layer_cases[layer] for layer in calls]
    with tf.Graph().as_default():
        sok.Init(global_batch_size=GLOBAL_BATCH, seed=11)
        layers = [case.make_layer() for case in layer_cases]
        tables = [layer.embedding_variable for layer in layers]
        plain = [_plain_variable(case) for case in layer_cases]
        inputs = [case.placeholder() for case in cases]
        ids = [case.placeholder("int64") for case in cases]
        labels = tf.compat.v1.placeholder(tf.float32, [None, 1])
        weights = random_dense_weights(rng, cases)

        outputs = [layers[layer](x) for layer, x in zip(calls, inputs)]
        sok_model = _finish(cases, tables, outputs, labels, weights, optimizer.train_tables)
        outputs = [case.reference(plain[i], x) for i, case, x in zip(calls, cases, ids)]
        plain_model = _finish(cases, plain, outputs, labels, weights, optimizer.train_reference)
        copy_rows = [
            variable.assign(case.rows_of(layer, some_keys))
            for variable, case, layer, some_keys in zip(plain, layer_cases, layers, keys)
        ]
        final_rows = [table.export() for table in tables]

        with initialized_session(rewrites=rewrites) as session:
            session.run(copy_rows)
            sides = [Side([], [], [], [], []) for _ in range(2)]
            for size, has_keys in steps:
                feeds = {labels: rng.normal(size=[size, 1])}
                for layer, case, x, i in zip(calls, cases, inputs, ids):
                    batch = random_batch(case, rng, size, keys[layer], has_keys)
                    feeds[x] = batch
                    feeds[i] = replace_keys(batch, _ids_of(keys[layer]))
                for side, model in zip(sides, (sok_model, plain_model)):
                    _step(session, model, feeds, side)
            exported = session.run(final_rows)
            sides[0].rows = [dict(zip(k.tolist(), rows)) for k, rows in exported]
            sides[1].rows = [dict(zip(k, rows)) for k, rows in zip(keys, session.run(plain))]
    for layer, case in enumerate(layer_cases):
        key_of_row = list(sides[0].rows[layer]) if case.use_hashtable else keys[layer]
        _name_gradients(sides[0], layer, key_of_row)
        _name_gradients(sides[1], layer, keys[layer])
    return sides


def _plain_variable(case):
    return tf.compat.v1.Variable(tf.zeros([NUM_KEYS, case.dim]), use_resource=True)


def random_dense_weights(rng, cases):
    """Of the two dense layers, NumPy arrays."""
    num_features = sum(case.features_per_sample for case in cases)
    return rng.normal(0, 0.3, [num_features, 8]), rng.normal(0, 0.5, [8, 1])


def _finish(cases, variables, outputs, labels, weights, train):
    """The dense part, the loss and the training op."""
    features = [tf.reshape(out, [-1, c.features_per_sample]) for c, out in zip(cases, outputs)]
    dense = [tf.compat.v1.Variable(w.astype(np.float32), use_resource=True) for w in weights]
    logits = tf.tanh(tf.concat(features, axis=1) @ dense[0]) @ dense[1]
    loss = tf.reduce_sum((logits - labels) ** 2) / GLOBAL_BATCH
    gradients = tf.gradients(loss, variables + dense)
    table_gradients, dense_gradients = gradients[: len(variables)], gradients[len(variables) :]
    train_dense = tf.compat.v1.train.GradientDescentOptimizer(0.05).apply_gradients(
        zip(dense_gradients, dense)
    )
    step = tf.group(train(table_gradients, variables), train_dense)
    return _Model(variables, outputs, loss, table_gradients, step)


def random_batch(case, rng, size, keys, has_keys):
    """A batch of the case; without keys, where it is sparse and `has_keys` is False."""
    batch = case.batch(rng, size, keys)
    if has_keys or not case.is_sparse:
        return batch
    return batch._replace(indices=batch.indices[:0], values=batch.values[:0])


def _ids_of(keys):
    id_of = {key: i for i, key in enumerate(keys)}
    return lambda batch: np.array([id_of[key] for key in batch.tolist()], np.int64)


def _step(session, model, feeds, side):
    loss, outputs, slices, _ = session.run(
        [model.loss, model.outputs, model.gradients, model.train], feeds
    )
    side.losses.append(loss)
    side.outputs.append(outputs)
    side.slices.append(slices)
    side.gradients.append([None] * len(slices))


def _name_gradients(side, layer, key_of_row):
    for slices, gradients in zip(side.slices, side.gradients):
        sums = {}
        for row, values in zip(slices[layer].indices, slices[layer].values):
            key = key_of_row[row]
            sums[key] = sums.get(key, 0) + values
        gradients[layer] = sums
