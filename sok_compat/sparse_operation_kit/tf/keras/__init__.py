# SPDX-License-Identifier: Apache-2.0
"""SparseOperationKit's additions to Keras."""

from sok_compat.sparse_operation_kit.tf.keras import mixed_precision, optimizers

__all__ = ["mixed_precision", "optimizers"]
