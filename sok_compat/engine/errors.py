# SPDX-License-Identifier: Apache-2.0
"""Exceptions of tables besides Python's own."""


class CapacityError(RuntimeError):
    """A table has no room for all new keys of a call; the call has changed nothing."""
