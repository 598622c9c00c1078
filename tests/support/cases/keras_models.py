# SPDX-License-Identifier: Apache-2.0
"""Keras models in all styles, on tables and on ordinary variables, and data for them."""

import functools

import numpy as np
import tensorflow as tf

from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.runtime.tf_versions import variable_of
from tests.support.cases.layer_cases import MAX_NNZ, SLOT_NUM, LayerCase

SPARSE, DENSE = (LayerCase(kind, True, "int64") for kind in ("mean", "static"))
KEYS = list(range(48))


class PlainEmbedding(keras.layers.Layer):
    """The case's lookup on an ordinary variable that starts as the table would."""

    def __init__(self, case, rows):
        super().__init__()
        self.case = case
        self.rows = self.add_weight(
            name="rows", shape=rows.shape, initializer=keras.initializers.Constant(rows)
        )

    def call(self, inputs):
        # A dense gradient: Keras 3 squares the gradients of a key that repeats one by one.
        return self.case.reference(1.0 * variable_of(self.rows), inputs)


class Top(keras.Model):
    """What all models end in; subclassed models put an embedding before it."""

    def __init__(self, embedding):
        super().__init__()
        self.embedding = embedding
        self.flatten = keras.layers.Flatten()
        self.dense = keras.layers.Dense(
            1, kernel_initializer=keras.initializers.RandomNormal(seed=1)
        )

    def call(self, inputs):
        return self.dense(self.flatten(self.embedding(inputs)))


class TopWithTraining(Top):
    def call(self, inputs, training=None):
        return self.dense(self.flatten(self.embedding(inputs, training=training)))


def functional(case, embedding):
    shape = [MAX_NNZ] if case.is_sparse else [SLOT_NUM, MAX_NNZ]
    inputs = keras.Input(shape, dtype=tf.int64, sparse=case.is_sparse)
    return keras.Model(inputs, Top(embedding).call(inputs))


STYLES = {
    "functional": functional,
    "subclassed": lambda case, embedding: Top(embedding),
    "subclassed-training": lambda case, embedding: (
        Top if isinstance(embedding, PlainEmbedding) else TopWithTraining
    )(embedding),
}


def batches(case, keys, seed, sizes=(8, 8, 3)):
    """A tf.data.Dataset of batches of these sizes."""
    rng = np.random.default_rng(seed)
    parts = []
    for size in sizes:
        keys_of_batch = case.batch(rng, size, keys)
        inputs = tf.SparseTensor.from_value(keys_of_batch) if case.is_sparse else keys_of_batch
        parts.append(tf.data.Dataset.from_tensors((inputs, rng.normal(size=[size, 1]))))
    return functools.reduce(lambda first, rest: first.concatenate(rest), parts)
