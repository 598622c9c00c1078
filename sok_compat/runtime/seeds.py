# SPDX-License-Identifier: Apache-2.0
"""Random seeds for where the script gives none."""

import secrets


def draw_seed():
    """Another one in each call, an int in [1, 2**62]: 0 would mean that none is given."""
    return secrets.randbits(62) + 1
