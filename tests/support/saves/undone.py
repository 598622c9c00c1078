# SPDX-License-Identifier: Apache-2.0
"""TensorFlow and Horovod as they were before this package changed them, for a while."""

import contextlib

from sok_compat.runtime import integrations


@contextlib.contextmanager
def integrations_undone():
    """No integration is in force inside; after it, those are that were before."""
    before = {}
    for integration in integrations.applied():
        owner, attribute = integration.places()[0]
        before[integration.name] = vars(owner)[attribute]
        integrations.undo(integration.name)
    try:
        yield
    finally:
        for integration in integrations.applied():
            integrations.undo(integration.name)
        for name, replacement in before.items():
            integrations.apply(name, lambda _, replacement=replacement: replacement)
