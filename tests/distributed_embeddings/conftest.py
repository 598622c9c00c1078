# SPDX-License-Identifier: Apache-2.0
"""What this API starts by itself ends with the tests of each file."""

import sys

import pytest


@pytest.fixture(autouse=True, scope="module")
def horovod_is_shut_down():
    yield
    horovod = sys.modules.get("horovod.tensorflow")
    if horovod is not None and horovod.is_initialized():
        horovod.shutdown()
