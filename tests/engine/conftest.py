# SPDX-License-Identifier: Apache-2.0
"""The suite of HashTable runs on the CPU, and on a GPU with arrays of all kinds."""

import pytest

from tests.engine.devices import ARRAYS_ON_GPU, WHY_NO_GPU, NewTable, skip_without_gpu

ON_GPU = [pytest.param("cuda:0", marks=skip_without_gpu)] if WHY_NO_GPU else ARRAYS_ON_GPU


@pytest.fixture(params=["cpu", *ON_GPU])
def new_table(request):
    """Makes a table as HashTable does, on a device; see devices.NewTable."""
    return NewTable(request.param)
