# SPDX-License-Identifier: Apache-2.0
"""Names that TensorFlow 1 has in `tensorflow.python.ops.control_flow_ops`.

Other names are TensorFlow's.
"""

import tensorflow.compat.v1 as tf

from sok_compat.deeprec.namespace.additions import all_else_of

Assert = tf.Assert
case = tf.case
cond = tf.cond
while_loop = tf.while_loop

__getattr__ = all_else_of(__name__)
