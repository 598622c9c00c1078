# SPDX-License-Identifier: Apache-2.0
"""The plugin optimizer of SparseOperationKit 1.x, and helpers for training loops."""

from sok_compat.sparse_operation_kit.optimizers.adam import Adam
from sok_compat.sparse_operation_kit.optimizers.utils import split_embedding_variable_from_others
from sok_compat.training.row_wise_adagrad import RowWiseAdagrad

__all__ = ["Adam", "RowWiseAdagrad", "split_embedding_variable_from_others"]
