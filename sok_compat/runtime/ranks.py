# SPDX-License-Identifier: Apache-2.0
"""How many processes train together, and which of them this one is."""

import dataclasses
import sys


@dataclasses.dataclass(frozen=True)
class Ranks:
    """This process among those that share the tables."""

    rank: int = 0
    size: int = 1


def current_ranks():
    """The ranks of this process.

    Raises:
      NotImplementedError: Horovod runs more than one process.
    """
    horovod = sys.modules.get("horovod.tensorflow")
    if horovod is not None and horovod.is_initialized() and horovod.size() > 1:
        raise NotImplementedError(
            f"sok_compat runs on one process so far, but Horovod has {horovod.size()}; start the "
            "script with python instead of horovodrun"
        )
    return Ranks()
