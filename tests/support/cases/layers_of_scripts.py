# SPDX-License-Identifier: Apache-2.0
"""Layers of a script's own, beside those of the package."""

import tensorflow as tf

from sok_compat.runtime.tf_versions import keras_of_layers as keras


class Doubled(keras.layers.Layer):
    """What a script may have in an embedding's place."""

    def __init__(self, input_dim, output_dim, **kwargs):
        super().__init__(**kwargs)
        self.input_dim, self.output_dim = input_dim, output_dim

    def build(self, _):
        self.rows = self.add_weight(name="rows", shape=[self.input_dim, self.output_dim])

    def call(self, ids):
        return 2 * tf.gather(self.rows, ids)

    def get_config(self):
        sizes = {"input_dim": self.input_dim, "output_dim": self.output_dim}
        return {**super().get_config(), **sizes}
