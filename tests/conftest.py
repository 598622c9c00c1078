# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests that use TensorFlow; nothing here imports it before a test asks."""

import os
import sys

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


def pytest_addoption(parser):
    """`--gpu-kernels`: graphs run the kernels of a GPU, on CPU threads."""
    parser.addoption("--gpu-kernels", action="store_true")


@pytest.fixture(autouse=True, scope="session")
def kernels(request):
    """Those that `--gpu-kernels` asks for, here and in processes that tests start."""
    from tests.support import gpu_kernels

    if request.config.getoption("--gpu-kernels"):
        os.environ[gpu_kernels.SWITCH] = "1"
        gpu_kernels.use_gpu_kernels_if_asked()


@pytest.fixture(autouse=True)
def no_init_of_eager_mode_stays():
    """What Init settles in eager mode holds for the process: here for one test."""
    yield
    initialization = sys.modules.get("sok_compat.runtime.initialization")
    if initialization is not None:
        initialization._eager_initialization = None


@pytest.fixture
def graph():
    """An empty default graph."""
    import tensorflow as tf

    with tf.Graph().as_default() as new_graph:
        yield new_graph


@pytest.fixture
def sok(graph):
    """The package, with Init called in the default graph; seed 7."""
    import sok_compat

    sok_compat.Init(global_batch_size=8, seed=7)
    return sok_compat
