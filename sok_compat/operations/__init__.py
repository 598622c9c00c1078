# SPDX-License-Identifier: Apache-2.0
"""The ops with which optimizers add up the gradients of repeated rows."""

from sok_compat.operations.merging import unique, unsorted_segment_sum

__all__ = ["unique", "unsorted_segment_sum"]
