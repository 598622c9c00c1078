# SPDX-License-Identifier: Apache-2.0
"""Importing this module switches the behaviour of TensorFlow 1 on, for the whole process."""

import tensorflow.compat.v1 as tf

from sok_compat.runtime.tf_versions import silence_deprecation

with silence_deprecation():  # of disable_resource_variables: TensorFlow 1 has none by default
    tf.disable_v2_behavior()
