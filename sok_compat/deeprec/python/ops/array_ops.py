# SPDX-License-Identifier: Apache-2.0
"""Names that TensorFlow 1 has in `tensorflow.python.ops.array_ops`; the others are TensorFlow's."""

import tensorflow.compat.v1 as tf

from sok_compat.deeprec.namespace.additions import all_else_of

parallel_stack = tf.parallel_stack
stack = tf.stack
unstack = tf.unstack

__getattr__ = all_else_of(__name__)
