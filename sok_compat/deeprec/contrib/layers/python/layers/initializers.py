# SPDX-License-Identifier: Apache-2.0
"""Initializers of `tf.contrib.layers`."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

__all__ = ["variance_scaling_initializer", "xavier_initializer", "xavier_initializer_conv2d"]


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: tf.DType = tf.float32
) -> tf.keras.initializers.Initializer:
    """Glorot's initializer, with a uniform or truncated normal distribution."""
    of = tf.glorot_uniform_initializer if uniform else tf.glorot_normal_initializer
    return of(seed=seed, dtype=dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: tf.DType = tf.float32,
) -> tf.keras.initializers.Initializer:
    """Numbers with the variance `factor` divided by the fan that `mode` names."""
    distribution = "uniform" if uniform else "truncated_normal"
    return tf.variance_scaling_initializer(factor, mode.lower(), distribution, seed, dtype)
