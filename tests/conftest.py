# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests that use TensorFlow; nothing here imports it before a test asks."""

import os
import sys

import pytest

from tests.support import gpu_kernels

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


def pytest_addoption(parser):
    """`--gpu`: tables are on a GPU. `--gpu-kernels`: graphs run its kernels, on CPU threads."""
    parser.addoption("--gpu", action="store_true")
    parser.addoption("--gpu-kernels", action="store_true")


def pytest_configure(config):
    """Lets TensorFlow see the GPUs before it is imported, and leave memory to tables."""
    if config.getoption("--gpu"):
        if os.environ["CUDA_VISIBLE_DEVICES"] == "-1":
            del os.environ["CUDA_VISIBLE_DEVICES"]
        os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
        os.environ[gpu_kernels.GPU_SWITCH] = "1"
    if config.getoption("--gpu-kernels"):
        os.environ[gpu_kernels.SWITCH] = "1"


@pytest.fixture(autouse=True, scope="session")
def tables_where_asked():
    """As the options say, here and in processes that tests start."""
    gpu_kernels.use_what_is_asked_for()


@pytest.fixture(autouse=True)
def no_init_of_eager_mode_stays():
    """What Init settles in eager mode holds for the process: here for one test."""
    yield
    initialization = sys.modules.get("sok_compat.sparse_operation_kit.core.initialization")
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
