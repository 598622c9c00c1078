# SPDX-License-Identifier: Apache-2.0
"""Module paths below `tf.contrib.layers` that scripts import."""
