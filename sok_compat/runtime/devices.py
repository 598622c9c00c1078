# SPDX-License-Identifier: Apache-2.0
"""The devices of tables."""

from __future__ import annotations

import tensorflow as tf

from sok_compat.runtime import _build_info
from sok_compat.runtime.tf_versions import eager_context

CPU = "CPU:0"


def table_device() -> str:
    """The device for a table that is created now.

    Returns:
      "GPU:<i>" if the enclosing `tf.device` names a GPU, TensorFlow sees one, and the op library
      was built with CUDA; else "CPU:0".
    """
    if not can_use_gpus():
        return CPU
    named = tf.DeviceSpec.from_string(_named_device())
    return f"GPU:{named.device_index or 0}" if named.device_type == "GPU" else CPU


def has_gpu_kernels() -> bool:
    """Whether the op library was built with CUDA."""
    return _build_info.HAS_GPU_KERNELS


def can_use_gpus() -> bool:
    """Whether tables can be on a GPU here."""
    return has_gpu_kernels() and bool(tf.config.get_visible_devices("GPU"))


def is_on_gpu(variable: tf.Variable) -> bool:
    """Whether a table's or slot's ops run on a GPU."""
    return tf.DeviceSpec.from_string(variable.device).device_type == "GPU"


def _named_device():
    if tf.executing_eagerly():
        return eager_context().device_name or ""
    return tf.no_op(name="device").device
