# SPDX-License-Identifier: Apache-2.0
"""Optimizers for tables and ordinary variables alike."""

from sok_compat.sparse_operation_kit.tf.keras.optimizers.adam import Adam
from sok_compat.sparse_operation_kit.tf.keras.optimizers.lazy_adam import LazyAdamOptimizer

__all__ = ["Adam", "LazyAdamOptimizer"]
