# SPDX-License-Identifier: Apache-2.0
"""SparseOperationKit's additions to TensorFlow, under its module paths."""

from sok_compat.tf import keras

__all__ = ["keras"]
