# SPDX-License-Identifier: Apache-2.0
"""`tf.device`, for scripts that name a GPU on machines without one."""

from __future__ import annotations

import functools
import logging
from contextlib import AbstractContextManager
from typing import Any

import tensorflow.compat.v1 as tf

_logger = logging.getLogger("sok_compat")
_warned_of: set[str] = set()  # the first such device


def device(device_name_or_function: Any) -> AbstractContextManager[Any]:
    """As tf.device, with the CPU in place of a GPU if TensorFlow has none. API of TensorFlow 1.

    TensorFlow 1 does so only with `allow_soft_placement`, and fails otherwise.

    Args:
      device_name_or_function: as of tf.device.
    """
    if callable(device_name_or_function):
        return tf.device(lambda op: _on_this_machine(device_name_or_function(op)))
    return tf.device(_on_this_machine(device_name_or_function))


def _on_this_machine(name: Any) -> Any:
    """The device to use for a device name, a DeviceSpec or None."""
    if "gpu" not in str(name).lower() or has_gpu():
        return name
    try:
        spec = tf.DeviceSpec.from_string(name) if isinstance(name, str) else name
        if spec.device_type.upper() != "GPU":
            return name
        on_cpu = spec.replace(device_type="CPU", device_index=0).to_string()
    except (AttributeError, ValueError):  # not a device: tf.device raises
        return name
    _warn_of(name if isinstance(name, str) else spec.to_string())
    return on_cpu


@functools.cache
def has_gpu() -> bool:
    """Whether TensorFlow has a GPU here."""
    return bool(tf.config.list_physical_devices("GPU"))


def _warn_of(name: str) -> None:
    if not _warned_of:
        _warned_of.add(name)
        _logger.warning("tf.device(%r): TensorFlow has no GPU here, using the CPU instead", name)
