# SPDX-License-Identifier: Apache-2.0
"""What DeepRec adds to `tensorflow.python.ops`; all else of it is TensorFlow's."""

from sok_compat.deeprec.namespace.additions import all_else_of

__getattr__ = all_else_of(__name__)
