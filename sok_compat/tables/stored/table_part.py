# SPDX-License-Identifier: Apache-2.0
"""`TablePart`: which keys of a whole table one of its parts has."""

from __future__ import annotations

import dataclasses

NUM_BUCKETS = 1000  # of keys, floormod(key, NUM_BUCKETS), in parts and checkpoints


@dataclasses.dataclass(frozen=True)
class TablePart:
    """A part with the buckets that are `index` modulo `count`."""

    index: int
    count: int

    @property
    def suffix(self) -> str:
        """The end of the part's name, after the name of the whole table."""
        return f"/part_{self.index}"
