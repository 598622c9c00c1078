# SPDX-License-Identifier: Apache-2.0
"""Skips the tests of several ranks where Horovod is not installed, but for those of MPI."""

from pathlib import Path

import pytest

from tests.distributed.launch import has_horovod

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Marks the tests of this folder."""
    if has_horovod():
        return
    skip = pytest.mark.skip(reason="Horovod is not installed: run `make horovod`")
    for item in items:
        if HERE in item.path.parents and HERE / "mpi" not in item.path.parents:
            item.add_marker(skip)
