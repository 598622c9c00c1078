# SPDX-License-Identifier: Apache-2.0
"""Random seeds, used if the script gives none."""

from __future__ import annotations

import secrets


def draw_seed() -> int:
    """A random seed in [1, 2**62]; 0 would mean that no seed is given."""
    return secrets.randbits(62) + 1
