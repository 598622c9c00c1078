# SPDX-License-Identifier: Apache-2.0
"""SparseOperationKit's additions to TensorFlow, under its module paths."""

from sok_compat.sparse_operation_kit.operations import unique, unsorted_segment_sum
from sok_compat.sparse_operation_kit.tf import keras

__all__ = ["keras", "unique", "unsorted_segment_sum"]
