# SPDX-License-Identifier: Apache-2.0
"""Exceptions of tables besides Python's own."""


class CapacityError(RuntimeError):
    """The new keys of a call would exceed the capacity of a table; the call has changed nothing."""
