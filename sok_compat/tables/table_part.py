# SPDX-License-Identifier: Apache-2.0
"""`TablePart`: a table that is one of several, which share the keys of a whole."""

import dataclasses

NUM_BUCKETS = 1000  # of keys, floormod(key, NUM_BUCKETS): what parts, and checkpoints, go by


@dataclasses.dataclass(frozen=True)
class TablePart:
    """Which buckets a part has: those that are `index` modulo `count`."""

    index: int
    count: int

    @property
    def suffix(self):
        """What the part's name has after that of the whole."""
        return f"/part_{self.index}"
