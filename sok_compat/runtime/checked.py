# SPDX-License-Identifier: Apache-2.0
"""Values of tensors that fail, when run, unless a condition holds."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_MOST_VALUES = 3  # in an error, as TensorFlow's Assert shows


def checked(value: tf.Tensor, condition: Any, message: str, *data: Any) -> tf.Tensor:
    """Returns the value if a scalar condition holds.

    Raises:
      tf.errors.InvalidArgumentError: when run: it does not. In eager mode the error begins with the
        message.
    """
    if not tf.executing_eagerly():
        with tf.control_dependencies([tf.debugging.Assert(condition, [message, *data])]):
            return tf.identity(value)
    if not condition:
        raise tf.errors.InvalidArgumentError(None, None, " ".join([message, *map(_shown, data)]))
    return value


def _shown(tensor):
    values = tf.strings.as_string(tf.reshape(tensor, [-1])).numpy().tolist()
    more = [b"..."] if len(values) > _MOST_VALUES else []
    return b" ".join([*values[:_MOST_VALUES], *more]).decode(errors="replace")
