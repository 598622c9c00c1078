# SPDX-License-Identifier: Apache-2.0
"""What the tables of names are made of."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Entry:
    """Paths of one object, and how it is beside the original's.

    state: 'works'; 'differs', where `note` says how; 'refused', where it says why, and the object
    is not there or raises `error`; 'new' for what the original has not.
    """

    paths: str  # separated by blanks
    state: str
    note: str = ""
    error: type = None

    @property
    def names(self):
        """The paths, one by one."""
        return self.paths.split()
