# SPDX-License-Identifier: Apache-2.0
"""The dtype of rows and gradients sent between ranks, a setting of each graph."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.runtime.graphs import state_here
from sok_compat.runtime.settings import FLOATS, WIRE_DTYPE


def wire_dtype() -> str:
    """The wire dtype of lookups that are built now.

    It is the one that `set_wire_dtype` was given for the outermost graph, or for eager mode; else
    the environment's SOK_WIRE_DTYPE; else 'float32'.

    Raises:
      ValueError: SOK_WIRE_DTYPE has an invalid value.
    """
    with tf.init_scope():
        return state_here().wire_dtype or WIRE_DTYPE.value()


def set_wire_dtype(name: str | tf.DType | None) -> None:
    """Sets the wire dtype for lookups built from now on, in the default graph or in eager mode.

    Args:
      name: 'float32', 'bfloat16' or 'float16', or the tf.DType; None for the environment's.

    Raises:
      ValueError: the dtype is none of these.
    """
    name = None if name is None else checked_wire_dtype(name)
    with tf.init_scope():
        state_here().wire_dtype = name


def checked_wire_dtype(name: Any) -> str:
    """The name of a wire dtype, given as its name or tf.DType.

    Raises:
      ValueError: it is none of FLOATS.
    """
    text = name.name if isinstance(name, tf.DType) else name
    if text not in FLOATS:
        raise ValueError(f"wire_dtype must be one of {', '.join(FLOATS)}, got {name!r}")
    return text
