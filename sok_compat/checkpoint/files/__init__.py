# SPDX-License-Identifier: Apache-2.0
"""Checkpoint files: finding the tables in them, and reading them in pieces. No TensorFlow."""
