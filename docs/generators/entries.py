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

    @property
    def shown_names(self):
        """The first path of each name: others of that last part lead to the same object."""
        first, *others = self.names
        last = first.rpartition(".")[2]
        return [first, *(name for name in others if name.rpartition(".")[2] != last)]
