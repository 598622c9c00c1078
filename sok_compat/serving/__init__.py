# SPDX-License-Identifier: Apache-2.0
"""Models that read their tables, as other processes load them."""

from sok_compat.serving.saved_model import export_saved_model

__all__ = ["export_saved_model"]
