# SPDX-License-Identifier: Apache-2.0
"""The suite of HashTable runs on the CPU, on a GPU's kernels on CPU threads, and on a GPU."""

import pytest

from tests.engine.devices import ARRAYS_ON_GPU, WHY_NO_GPU, NewTable, skip_without_gpu
from tests.support.host_queue import engine_module

ON_GPU = [pytest.param("cuda:0", marks=skip_without_gpu)] if WHY_NO_GPU else ARRAYS_ON_GPU


@pytest.fixture(params=["cpu", "host queue", *ON_GPU])
def new_table(request, monkeypatch):
    """Makes a table as HashTable does, on a device; see devices.NewTable."""
    if request.param == "host queue":
        monkeypatch.setattr("sok_compat.engine.hash_table._engine", engine_module())
    return NewTable(request.param)
