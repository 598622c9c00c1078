# SPDX-License-Identifier: Apache-2.0
"""DLRM: bottom MLP over the dense inputs, dot products of all pairs of vectors, top MLP."""

import numpy as np
import tensorflow as tf

from examples.dlrm import criteo, reader
from examples.dlrm.mlp import make_mlp, run_mlp

NUM_VECTORS = criteo.NUM_CATEGORICAL + 1  # the categories' and the bottom MLP's


class Dlrm:
    """The dense part of the model; its weights are shared by all calls in one graph."""

    def __init__(self, options):
        widths = (reader.DENSE_WIDTH, *options.bottom_widths, options.dim)
        self._bottom = make_mlp("bottom", widths, options.seed)
        num_pairs = NUM_VECTORS * (NUM_VECTORS - 1) // 2
        widths = (options.dim + num_pairs, *options.top_widths, 1)
        self._top = make_mlp("top", widths, options.seed + 100)

    def __call__(self, dense, vectors):
        """dense [batch, DENSE_WIDTH], vectors [batch, 26, dim] -> logits [batch]."""
        bottom = tf.nn.relu(run_mlp(self._bottom, dense))
        pairs = dot_products(tf.concat([tf.expand_dims(bottom, 1), vectors], axis=1))
        logits = run_mlp(self._top, tf.concat([bottom, pairs], axis=1))
        return tf.squeeze(logits, axis=1)


def dot_products(vectors):
    """[batch, n, dim] -> [batch, n * (n - 1) / 2]: the dot product of each pair of vectors."""
    count = vectors.shape[1]
    products = tf.reshape(tf.matmul(vectors, vectors, transpose_b=True), [-1, count * count])
    first, second = np.tril_indices(count, k=-1)
    return tf.gather(products, first * count + second, axis=1)
