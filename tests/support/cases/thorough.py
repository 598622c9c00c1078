# SPDX-License-Identifier: Apache-2.0
"""Parameters of which `make test` takes some, and `make check` all."""

import pytest


def thorough_but(count, values):
    """The values as parameters; those after the first `count` of them are thorough."""
    return [
        value if place < count else pytest.param(value, marks=pytest.mark.thorough)
        for place, value in enumerate(values)
    ]
