# SPDX-License-Identifier: Apache-2.0
"""The module of tables whose kernels are a GPU's and run on CPU threads, for tests."""

import importlib.util
import os
from functools import lru_cache

import pytest

# An environment variable: the path of what CMake's target _engine_host_queue makes.
LIBRARY = "SOK_TEST_ENGINE_LIBRARY"


@lru_cache
def engine_module():
    """As sok_compat.engine._engine, for tables on the CPU; skips a test where it was not built."""
    path = os.environ.get(LIBRARY)
    if not path:
        pytest.skip(f"{LIBRARY} does not name a library: make pytest-gpu-kernels builds it")
    spec = importlib.util.spec_from_file_location("_engine_host_queue", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
