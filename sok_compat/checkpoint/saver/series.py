# SPDX-License-Identifier: Apache-2.0
"""Series of checkpoints: a whole one, and increments with the changes since their predecessor.

See ops/formats/bundle/series.h.
"""

from __future__ import annotations

import dataclasses
import os

from sok_compat.checkpoint.files.increments import SERIES
from sok_compat.checkpoint.streams.stored_tensors import tensors_in_readable


@dataclasses.dataclass(frozen=True)
class Saved:
    """A checkpoint of a series."""

    path: str
    id: str

    @property
    def as_base(self) -> str:
        """The input `base` of SokBeginCheckpoint for an increment of this checkpoint."""
        return f"{os.path.basename(self.path)}\n{self.id}"


def is_increment(path: str) -> bool:
    """Whether a checkpoint is an increment; also False if it cannot be read."""
    return tensors_in_readable(path).get(SERIES) == ("string", (3,))
