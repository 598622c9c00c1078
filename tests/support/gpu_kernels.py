# SPDX-License-Identifier: Apache-2.0
"""Graphs whose ops run the kernels written for a GPU, on CPU threads."""

LABEL = "sok_gpu_kernels_on_cpu_threads"  # SOK_ON_CPU_THREADS of ops/tf/device_call.h


def ops_with_gpu_kernels():
    """The types of ops that have such kernels."""
    from tensorflow.python.framework import kernels

    from sok_compat.runtime.op_library import ops

    del ops  # loads the library, which registers them
    return sorted(
        kernel.op for kernel in kernels.get_all_registered_kernels().kernel if kernel.label == LABEL
    )


def use_gpu_kernels(monkeypatch):
    """From now on graphs, also those of functions and branches, choose these kernels."""
    import tensorflow as tf

    labels = dict.fromkeys(ops_with_gpu_kernels(), LABEL)
    make_graph = tf.Graph.__init__

    def make_graph_with_labels(self, *args, **kwargs):
        make_graph(self, *args, **kwargs)
        self._op_to_kernel_label_map.update(labels)

    monkeypatch.setattr(tf.Graph, "__init__", make_graph_with_labels)
