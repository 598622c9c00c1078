# SPDX-License-Identifier: Apache-2.0
"""Saving tables."""

from sok_compat.saver.Saver import Saver

__all__ = ["Saver"]
