# SPDX-License-Identifier: Apache-2.0
"""The engines that the suite compares, and the one place that says how each is chosen.

`cpu` is what the others are compared with. A worker process serves one engine: see worker.py.
"""

import contextlib
import dataclasses
import os
from pathlib import Path

import pytest

from tests.support import gpu_kernels


@dataclasses.dataclass(frozen=True)
class Engine:
    """One way to run the ops of tables."""

    name: str
    has_own_library: bool = False
    device: str = "/CPU:0"
    needs_gpu: bool = False

    @property
    def environment(self):
        """What its process sees: one engine's process must not take another's GPU or library."""
        library = os.environ.get(gpu_kernels.LIBRARY, "") if self.has_own_library else ""
        seen = {gpu_kernels.LIBRARY: library, "CUDA_VISIBLE_DEVICES": "-1"}
        if self.needs_gpu:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
            seen["CUDA_VISIBLE_DEVICES"] = "0" if visible == "-1" else visible
            seen["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
        return seen

    @property
    def why_not_on_this_machine(self):
        """What it needs and is not there; None: nothing."""
        if self.needs_gpu and not GPU_DRIVER.exists():
            return "no GPU on this machine"
        if self.has_own_library and not os.environ.get(gpu_kernels.LIBRARY):
            return f"{gpu_kernels.LIBRARY} names no library: make pytest-gpu-kernels builds it"
        return None


GPU_DRIVER = Path("/dev/nvidiactl")
CPU = Engine("cpu")
ENGINES = {
    engine.name: engine
    for engine in (
        CPU,
        Engine("host_threads", has_own_library=True),
        Engine("cuda", device="/GPU:0", needs_gpu=True),
    )
}


def engines_here(but=None):
    """Parameters of a test: names of engines; one that cannot run on this machine is skipped."""
    cases = []
    for engine in ENGINES.values():
        why_not = engine.why_not_on_this_machine
        marks = [pytest.mark.skipif(True, reason=f"{engine.name}: {why_not}")] if why_not else []
        if engine is not but:
            cases.append(pytest.param(engine.name, marks=marks))
    return cases


def load_ops():
    """The op library that this process's environment names."""
    gpu_kernels.use_library_asked_for()
    from sok_compat.runtime.op_library import ops

    return ops


def why_not_here(engine):
    """Why the engine cannot run in this process; None: it can. For its worker to say."""
    if not engine.needs_gpu:
        return None
    import tensorflow as tf
    from tensorflow.python.framework import kernels

    load_ops()
    if not tf.config.get_visible_devices("GPU"):
        return "TensorFlow sees no GPU"
    registered = kernels.get_registered_kernels_for_op("SokFindRows").kernel
    if not any(kernel.device_type == "GPU" for kernel in registered):
        return "the op library has no kernels for GPUs"
    return None


@contextlib.contextmanager
def graph_of(engine):
    """An empty default graph whose ops run on the engine."""
    import tensorflow as tf

    with tf.Graph().as_default() as graph, tf.device(engine.device):
        yield graph
