# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments that Python itself would take for what they are not."""

import re

import numpy as np
import tensorflow as tf

_SCOPE_NAME = re.compile(r"[A-Za-z0-9_.\\/>-]+")  # as tf.name_scope wants it


def checked_flag(name, value):
    """`value` as a bool: a bool, or the int 0 or 1. Not its truth: "False" would be true.

    Raises:
      ValueError: it is neither.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)) and value in (0, 1):
        return bool(value)
    raise ValueError(f"{name} must be True or False, got {value!r}")


def checked_layer_arguments(arguments):
    """The Keras layer's keyword arguments, if its name is one for a scope of the graph.

    Raises:
      TypeError: the name is no string.
      ValueError: it is none for a graph, or `trainable` is no bool.
    """
    name = arguments.get("name")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}")
    is_free = name is None or tf.executing_eagerly()
    if not is_free and not _SCOPE_NAME.fullmatch(name):
        raise ValueError(
            f"name must consist of letters, digits and _ . \\ / > -, as names in a graph do, got "
            f"{name!r}"
        )
    checked_flag("trainable", arguments.get("trainable", True))
    return arguments


def checked_compute_dtype(dtype):
    """The dtype of a layer's output, of the Keras policy: floating.

    Raises:
      ValueError: it is not.
    """
    checked = tf.as_dtype(dtype or tf.float32)
    if not checked.is_floating:
        raise ValueError(f"dtype must be a floating one, of the output, got {checked.name}")
    return checked
