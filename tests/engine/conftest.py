# SPDX-License-Identifier: Apache-2.0
"""The suite of HashTable runs on each engine it can name, on a GPU with arrays of all kinds."""

import pytest

from tests.conformance.engines import ENGINES
from tests.engine.devices import ARRAYS_ON_GPU, WHY_NO_GPU, NewTable, skip_without_gpu

ON_HOST = [
    engine.hash_table_device
    for engine in ENGINES.values()
    if engine.hash_table_device and not engine.needs_gpu
]
ON_GPU = [pytest.param("cuda:0", marks=skip_without_gpu)] if WHY_NO_GPU else ARRAYS_ON_GPU


@pytest.fixture(params=[*ON_HOST, *ON_GPU])
def new_table(request):
    """Makes a table as HashTable does, on a device; see devices.NewTable."""
    return NewTable(request.param)
