# SPDX-License-Identifier: Apache-2.0
"""The ops that optimizers use to sum the gradients of repeated rows."""

from sok_compat.sparse_operation_kit.operations.merging import unique, unsorted_segment_sum

__all__ = ["unique", "unsorted_segment_sum"]
