# SPDX-License-Identifier: Apache-2.0
"""Models for serving: exported, with read-only tables, or following a trainer's checkpoints."""

from sok_compat.serving.follower import Follower
from sok_compat.serving.saved_model import export_saved_model

__all__ = ["Follower", "export_saved_model"]
