# SPDX-License-Identifier: Apache-2.0
"""Importing this module turns on TensorFlow 1 behaviour for the whole process, module paths too."""

import tensorflow.compat.v1 as tf

from sok_compat.deeprec.namespace.module_paths import add_finder
from sok_compat.runtime.tf_versions import silence_deprecation

with silence_deprecation():  # of disable_resource_variables, which TensorFlow 1 behaviour calls
    tf.disable_v2_behavior()
add_finder()
