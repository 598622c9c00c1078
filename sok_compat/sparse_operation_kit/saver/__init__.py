# SPDX-License-Identifier: Apache-2.0
"""Saving tables."""

from sok_compat.sparse_operation_kit.saver.Saver import Saver

__all__ = ["Saver"]
