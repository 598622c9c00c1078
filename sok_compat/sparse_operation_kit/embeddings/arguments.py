# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments that Python would silently accept in a wrong sense."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import tensorflow as tf

_SCOPE_NAME = re.compile(r"[A-Za-z0-9_.\\/>-]+")  # as tf.name_scope wants it


def checked_flag(name: str, value: Any) -> bool:
    """Returns `value` as a bool; its truth value would do for too much, such as "False".

    Raises:
      ValueError: it is neither a bool nor the int 0 or 1.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)) and value in (0, 1):
        return bool(value)
    raise ValueError(f"{name} must be True or False, got {value!r}")


def checked_layer_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the Keras layer's keyword arguments.

    Raises:
      TypeError: the name is not a string.
      ValueError: the name is not valid in a graph, or `trainable` is not a bool.
    """
    name = arguments.get("name")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}")
    in_graph = not tf.executing_eagerly()
    if name is not None and in_graph and not _SCOPE_NAME.fullmatch(name):
        raise ValueError(
            f"name must consist of letters, digits and _ . \\ / > -, as names in a graph do, got "
            f"{name!r}"
        )
    checked_flag("trainable", arguments.get("trainable", True))
    return arguments


def checked_compute_dtype(dtype: tf.DType | str | None) -> tf.DType:
    """Returns the compute dtype of a Keras policy, or float32 if it is None.

    Raises:
      ValueError: the dtype is not a floating one.
    """
    checked = tf.as_dtype(dtype or tf.float32)
    if not checked.is_floating:
        raise ValueError(f"dtype, that of the output, must be floating, got {checked.name}")
    return checked
