# SPDX-License-Identifier: Apache-2.0
"""XLA does not compile lookups in tables; an error says so before XLA does."""

import pytest
import tensorflow as tf

from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.tables.table import Table

MESSAGE = "XLA cannot compile a lookup in the table xla.*: omit jit_compile=True"


class Layer(keras.layers.Layer):
    """Looks keys up."""

    def __init__(self):
        super().__init__()
        self.table = Table(None, 4, name="xla")

    def call(self, keys):
        return lookup_group([Lookup(self.table, tf.reshape(keys, [-1]))], True)[0]


def test_a_compiled_function_raises_where_the_table_is_looked_up():
    layer, keys = Layer(), tf.constant([1, 2], tf.int64)
    assert tf.function(layer)(keys).shape == [2, 4]
    inside = tf.function(
        lambda keys: tf.cond(keys[0] > 0, lambda: layer(keys), lambda: tf.zeros([2, 4]))
    )
    for function in (layer, inside):
        with pytest.raises(NotImplementedError, match=MESSAGE):
            tf.function(function, jit_compile=True)(keys)
    rows = layer(keys)  # looked up before
    assert tf.function(tf.reduce_sum, jit_compile=True)(rows).shape == []


def test_a_compiled_model_raises():
    model = keras.Sequential([Layer()])
    model.compile("sgd", "mse", jit_compile=True)
    with pytest.raises(NotImplementedError, match=MESSAGE):
        model.fit(tf.constant([[1], [2]], tf.int64), tf.zeros([2, 4]), verbose=0)
