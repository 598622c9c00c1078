# SPDX-License-Identifier: Apache-2.0
"""What tables raise beside Python's own exceptions."""


class CapacityError(RuntimeError):
    """A table has no room for all new keys of a call; it is as it was before the call."""
