# SPDX-License-Identifier: Apache-2.0
"""Module paths below `tf.contrib.rnn` that scripts import."""
