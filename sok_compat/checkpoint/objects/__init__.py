# SPDX-License-Identifier: Apache-2.0
"""Tables in tf.train.Checkpoint and in Keras files."""
