# SPDX-License-Identifier: Apache-2.0
"""Tests of tables on a GPU; or of the kernels written for one, on CPU threads (in graphs only)."""

import os

# Environment variables, also for the processes that tests start.
SWITCH = "SOK_TEST_GPU_KERNELS"
GPU_SWITCH = "SOK_TEST_ON_GPU"
LABEL = "sok_gpu_kernels_on_cpu_threads"  # SOK_ON_CPU_THREADS of ops/tf/device_call.h


def ops_with_gpu_kernels():
    """The types of ops that have such kernels."""
    from tensorflow.python.framework import kernels

    from sok_compat.runtime.op_library import ops

    del ops  # loads the library, which registers them
    return sorted(
        {
            kernel.op
            for kernel in kernels.get_all_registered_kernels().kernel
            if kernel.label == LABEL
        }
    )


def use_what_is_asked_for():
    """Puts tables, or the kernels, where the environment says, from now on."""
    if os.environ.get(GPU_SWITCH):
        _put_tables_on_gpu()
    elif os.environ.get(SWITCH):
        _use_gpu_kernels()


def _put_tables_on_gpu():
    import tensorflow as tf

    from sok_compat.runtime import devices

    if not devices.can_use_gpus():
        raise RuntimeError(
            f"no table can be on a GPU here: TensorFlow {tf.__version__} sees "
            f"{tf.config.get_visible_devices('GPU')}, and the op library has "
            f"{'' if devices.has_gpu_kernels() else 'no '}kernels for GPUs"
        )
    devices._named_device = lambda: "/GPU:0"
    make_session = tf.compat.v1.Session.__init__

    def make_session_with_soft_placement(self, target="", graph=None, config=None):
        config = config or tf.compat.v1.ConfigProto()
        config.allow_soft_placement = True
        make_session(self, target, graph, config)

    tf.compat.v1.Session.__init__ = make_session_with_soft_placement


def _use_gpu_kernels():
    """Graphs choose these kernels, and branches and loops those of their graph."""
    import tensorflow as tf

    from sok_compat.runtime import devices

    devices._is_gpu = lambda variable: variable._in_graph_mode
    labels = dict.fromkeys(ops_with_gpu_kernels(), LABEL)
    make_graph = tf.Graph.__init__

    def make_graph_with_labels(self, *args, **kwargs):
        make_graph(self, *args, **kwargs)
        if type(self) is tf.Graph:
            self._op_to_kernel_label_map.update(labels)
        elif not tf.executing_eagerly():  # a branch: of a graph, or of a function called eagerly
            outer = tf.compat.v1.get_default_graph()
            self._op_to_kernel_label_map.update(outer._op_to_kernel_label_map)

    tf.Graph.__init__ = make_graph_with_labels
