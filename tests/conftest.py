# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests that use TensorFlow; nothing here imports it before a test asks."""

import collections
import contextlib
import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import gpu_kernels

_IS_KERAS_3 = os.environ.get("SOK_TEST_KERAS") == "3"
_NEEDS_KERAS_2 = "ImportError: .*(of Keras 2 is needed|not supported in Keras 3)"
# These import optimizers and loss scales that are classes of Keras 2.
_FILES_OF_KERAS_2 = ["optimizers/test_loss_scale.py", "optimizers/test_plugin_base.py"]
collect_ignore = _FILES_OF_KERAS_2 if _IS_KERAS_3 else []
if _IS_KERAS_3:  # for this process and those that tests start
    sys.path.insert(0, str(Path(__file__).parent / "support" / "without_keras_2"))
    os.environ["PYTHONPATH"] = os.pathsep.join([sys.path[0], os.environ.get("PYTHONPATH", "")])
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


def pytest_addoption(parser):
    """`--gpu`: tables are on a GPU. `--gpu-kernels`: ops run its kernels, on CPU threads, from the
    library _ops_host_queue.so that it names. `--at-most`: parameters of a test to run."""
    parser.addoption("--gpu", action="store_true")
    parser.addoption("--gpu-kernels", metavar="LIBRARY")
    parser.addoption("--at-most", type=int, default=0, metavar="N", help="0: all parameters")


def pytest_configure(config):
    """Lets TensorFlow see the GPUs before it is imported, and leave memory to tables."""
    if config.getoption("--gpu"):
        if os.environ["CUDA_VISIBLE_DEVICES"] == "-1":
            del os.environ["CUDA_VISIBLE_DEVICES"]
        os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
        os.environ[gpu_kernels.GPU_SWITCH] = "1"
    if config.getoption("--gpu-kernels"):
        os.environ[gpu_kernels.LIBRARY] = os.path.abspath(config.getoption("--gpu-kernels"))
        gpu_kernels.use_library_asked_for()


@contextlib.contextmanager
def _without_keras_2():
    """Skips what only Keras 2 has, here or in a process, where SOK_TEST_KERAS=3 hides it."""
    try:
        yield
    except (ImportError, AssertionError) as error:
        if _IS_KERAS_3 and re.search(_NEEDS_KERAS_2, f"{type(error).__name__}: {error}"):
            pytest.skip("needs Keras 2")
        raise


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup():
    with _without_keras_2():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call():
    with _without_keras_2():
        return (yield)


def pytest_terminal_summary(terminalreporter, config):
    """Says how many parameters of a test have run."""
    most = config.getoption("--at-most")
    if most:
        terminalreporter.write_line(f"Ran at most {most} parameters of a test; TESTS= runs all.")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Of the parameters of a test, --at-most stay: those that show most values not shown yet; of
    several, by the golden section. Thorough tests keep all, as most of them share their ranks, and
    so do those of documents."""
    most = config.getoption("--at-most")
    if not most:
        return
    stay, tests = set(), collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("thorough") or item.path.parent.name == "docs":
            stay.add(item)
        else:
            tests[item.nodeid.partition("[")[0]].append(item)
    for of_test in tests.values():
        places = sorted(range(len(of_test)), key=lambda place: place * (5**0.5 - 1) / 2 % 1)
        left, shown = {of_test[place]: _values_of(of_test[place]) for place in places}, set()
        for _ in range(min(most, len(left))):
            chosen = max(left, key=lambda item: len(left[item] - shown))
            shown |= left.pop(chosen)
            stay.add(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in stay])
    items[:] = [item for item in items if item in stay]


def _values_of(item):
    """{(parameter, its value as text)} of a test."""
    if not hasattr(item, "callspec"):
        return set()
    return {(name, repr(value)) for name, value in item.callspec.params.items()}


@pytest.fixture(autouse=True, scope="session")
def tables_where_asked():
    """As the options say, here and in processes that tests start."""
    gpu_kernels.use_what_is_asked_for()


@pytest.fixture(autouse=True, scope="session")
def what_was_imported_is_no_garbage():
    """Else a tenth of the time goes into looking through TensorFlow's own objects."""
    gc.set_threshold(10_000)  # a fifteenth of the collections, in half of their time
    yield gc.freeze()


@pytest.fixture(autouse=True)
def no_init_of_eager_mode_stays():
    """What Init settles in eager mode holds for the process: here for one test."""
    yield
    initialization = sys.modules.get("sok_compat.sparse_operation_kit.core.initialization")
    if initialization is not None:
        initialization._eager_initialization = None


@pytest.fixture
def disk(tmp_path):
    """A folder that is not in memory, as that of temporary files may be."""
    command = ["stat", "-f", "-c", "%T", tmp_path]
    if subprocess.run(command, capture_output=True, text=True).stdout.strip() == "tmpfs":
        pytest.skip("temporary files are on tmpfs, which is memory")
    return tmp_path


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
