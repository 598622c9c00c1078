# SPDX-License-Identifier: Apache-2.0
"""Runs a script as `python -m sok_compat.run` does, but with TensorFlow's own input_layer,
linear_model, sequences and Adam: the baseline of a script whose flag --tf asks for plain
TensorFlow."""

import sys

import tensorflow.compat.v1 as tf

from sok_compat.deeprec import feature_column
from sok_compat.deeprec.contrib import feature_column as contrib
from sok_compat.deeprec.optimizer_rules.stock_optimizers import AdamOptimizer
from sok_compat.run.program import main

if __name__ == "__main__":
    for name in ("input_layer", "linear_model"):
        setattr(feature_column, name, getattr(tf.feature_column, name))
    contrib.pooled_by_position = lambda column: column
    AdamOptimizer._apply_sparse_shared = tf.train.AdamOptimizer._apply_sparse_shared
    main(sys.argv[1:])
