# SPDX-License-Identifier: Apache-2.0
"""`is_sequence` of TensorFlow 1's `tensorflow.python.util.nest`; other names are TensorFlow's."""

from tensorflow.python.util.nest import is_nested

from sok_compat.deeprec.namespace.additions import all_else_of

is_sequence = is_nested

__getattr__ = all_else_of(__name__)
