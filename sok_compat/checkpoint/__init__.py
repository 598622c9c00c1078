# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow's savers and checkpoints hold of tables."""
