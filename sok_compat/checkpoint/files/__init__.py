# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as files: what is in them, recognised and read piece by piece. No TensorFlow."""
