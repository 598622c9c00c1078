# SPDX-License-Identifier: Apache-2.0
"""DeepRec's additions to `tensorflow.python.training`; other names are TensorFlow's."""

from sok_compat.deeprec.namespace.additions import all_else_of

__getattr__ = all_else_of(__name__)
