# SPDX-License-Identifier: Apache-2.0
"""`tf.device`, for scripts that name a GPU on machines that have none."""

import functools
import logging

import tensorflow.compat.v1 as tf

_logger = logging.getLogger("sok_compat")
_warned_of = set()  # the first such device


def device(device_name_or_function):
    """`tf.device`; where TensorFlow has no GPU, a device that names one becomes the CPU.

    TensorFlow 1 needs `allow_soft_placement` for that, and fails without it.
    """
    if callable(device_name_or_function):
        return tf.device(lambda op: _on_this_machine(device_name_or_function(op)))
    return tf.device(_on_this_machine(device_name_or_function))


def _on_this_machine(name):
    """A device by its name or DeviceSpec, or None."""
    if "gpu" not in str(name).lower() or _has_gpu():
        return name
    try:
        spec = tf.DeviceSpec.from_string(name) if isinstance(name, str) else name
        if spec.device_type.upper() != "GPU":
            return name
        on_cpu = spec.replace(device_type="CPU", device_index=0).to_string()
    except (AttributeError, ValueError):  # no device: tf.device says so
        return name
    _warn_of(name if isinstance(name, str) else spec.to_string())
    return on_cpu


@functools.cache
def _has_gpu():
    return bool(tf.config.list_physical_devices("GPU"))


def _warn_of(name):
    if not _warned_of:
        _warned_of.add(name)
        _logger.warning(
            "tf.device(%r): TensorFlow has no GPU here, so what is to be on one is on the CPU", name
        )


NAMES = {"device": device}
