# SPDX-License-Identifier: Apache-2.0
"""The argument `mode` of variables: which rank has which keys."""

from __future__ import annotations

import re

from sok_compat.ranks.collectives import is_of_one_rank
from sok_compat.ranks.identity import Ranks
from sok_compat.tables.placement import Placement

EVERY_RANK = -1  # a variable's target_gpu


def target_of(mode: str | None) -> int:
    """Returns N of 'localized:N', or EVERY_RANK of 'distributed' or None.

    Raises:
      RuntimeError: mode is none of these.
    """
    mode = "distributed" if mode is None else mode
    found = isinstance(mode, str) and re.fullmatch(r"distributed|localized:(\d+)", mode)
    if not found:
        raise RuntimeError(f"mode must be 'distributed' or 'localized:<rank>', got {mode!r}")
    return EVERY_RANK if found[1] is None else int(found[1])


def mode_of(target_gpu: int) -> str:
    """Returns the mode of a `target_of`."""
    return "distributed" if target_gpu == EVERY_RANK else f"localized:{target_gpu}"


def placement_of(target_gpu: int, ranks: Ranks, num_keys: int = 0) -> Placement:
    """Returns the Placement of a variable's keys.

    Raises:
      RuntimeError: the rank does not exist.
    """
    if target_gpu == EVERY_RANK or is_of_one_rank():  # a served graph has no other ranks
        return Placement.by_modulo(ranks, num_keys)
    if not 0 <= target_gpu < ranks.size:
        raise RuntimeError(
            f"mode='localized:<rank>' needs a rank below the number of ranks, {ranks.size}, got "
            f"{target_gpu}"
        )
    return Placement.on_one_rank(ranks, target_gpu)
