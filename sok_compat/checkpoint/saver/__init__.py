# SPDX-License-Identifier: Apache-2.0
"""Tables in tf.train.Saver and IncrementalSaver: whole checkpoints and increments."""
