# SPDX-License-Identifier: Apache-2.0
"""One worker process for each engine and test process."""

import functools

import pytest

from tests.conformance.engines import ENGINES
from tests.conformance.worker import Worker


@functools.cache
def _worker(name):
    return Worker(ENGINES[name])


def worker_or_skip(name):
    """Runs scripts on the engine; skips the test where that cannot be."""
    worker = _worker(name)
    why_not = worker.why_not_here()
    if why_not:
        pytest.skip(f"{name}: {why_not}")
    return worker


@pytest.fixture(scope="session", autouse=True)
def workers_stop():
    yield
    for name in ENGINES:
        _worker(name).stop()
    _worker.cache_clear()
