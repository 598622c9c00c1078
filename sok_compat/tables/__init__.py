# SPDX-License-Identifier: Apache-2.0
"""Tables as TensorFlow variables, and the planes of their optimizers."""

from sok_compat.tables.known_tables import connected_ranks
from sok_compat.tables.placement import Placement
from sok_compat.tables.slots.registry import slot_for
from sok_compat.tables.table import Table

__all__ = ["Placement", "Table", "connected_ranks", "slot_for"]
