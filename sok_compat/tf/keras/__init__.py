# SPDX-License-Identifier: Apache-2.0
"""SparseOperationKit's additions to Keras."""

from sok_compat.tf.keras import optimizers

__all__ = ["optimizers"]
