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
    kernel_label: str = ""
    device: str = "/CPU:0"
    needs_gpu: bool = False
    hash_table_device: str = ""  # HashTable(device=...); "": not reachable from Python

    @property
    def environment(self):
        """What its process sees: one engine's process must not take another's GPU."""
        if not self.needs_gpu:
            return {"CUDA_VISIBLE_DEVICES": "-1"}
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
        return {
            "CUDA_VISIBLE_DEVICES": "0" if visible == "-1" else visible,
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        }


GPU_DRIVER = Path("/dev/nvidiactl")
CPU = Engine("cpu", hash_table_device="cpu")
ENGINES = {
    engine.name: engine
    for engine in (
        CPU,
        Engine("host_threads", kernel_label=gpu_kernels.LABEL),
        Engine("cuda", device="/GPU:0", needs_gpu=True, hash_table_device="cuda:0"),
    )
}


def engines_here(but=None):
    """Parameters of a test: names of engines; one that the machine has no device for is skipped."""
    no_gpu = pytest.mark.skipif(not GPU_DRIVER.exists(), reason="no GPU on this machine")
    return [
        pytest.param(engine.name, marks=no_gpu if engine.needs_gpu else ())
        for engine in ENGINES.values()
        if engine is not but
    ]


def load_ops():
    """The op library. The only line of the suite that knows where the package keeps it."""
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
        if engine.kernel_label:
            labels = dict.fromkeys(gpu_kernels.ops_with_gpu_kernels(), engine.kernel_label)
            graph._op_to_kernel_label_map.update(labels)
        yield graph
