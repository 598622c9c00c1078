# SPDX-License-Identifier: Apache-2.0
"""Exports models, with read-only tables, for serving."""

from sok_compat.serving.saved_model import export_saved_model

__all__ = ["export_saved_model"]
