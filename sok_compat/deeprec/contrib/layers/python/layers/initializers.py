# SPDX-License-Identifier: Apache-2.0
"""Initializers of `tf.contrib.layers`."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

# Of a standard normal distribution within [-2, 2], by which TensorFlow 2's initializer divides.
_STDDEV_OF_TRUNCATED = 0.87962566103423978
__all__ = ["variance_scaling_initializer", "xavier_initializer", "xavier_initializer_conv2d"]


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: tf.DType = tf.float32
) -> tf.keras.initializers.Initializer:
    """Glorot's initializer, with a uniform or truncated normal distribution."""
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: tf.DType = tf.float32,
) -> tf.keras.initializers.Initializer:
    """Numbers with the variance `factor` divided by the fan that `mode` names."""
    if not uniform:  # of 1.3 * factor before it is truncated, as there
        factor *= 1.3 * _STDDEV_OF_TRUNCATED**2
    distribution = "uniform" if uniform else "truncated_normal"
    return tf.variance_scaling_initializer(factor, mode.lower(), distribution, seed, dtype)
