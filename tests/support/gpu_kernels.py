# SPDX-License-Identifier: Apache-2.0
"""Graphs whose ops run the kernels written for a GPU, on CPU threads. Not in eager mode."""

import os

SWITCH = "SOK_TEST_GPU_KERNELS"  # environment variable, also for the processes that tests start
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


def use_gpu_kernels_if_asked():
    """From now on graphs choose these kernels, and branches and loops those of their graph."""
    if not os.environ.get(SWITCH):
        return
    import tensorflow as tf

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
