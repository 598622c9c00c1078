# SPDX-License-Identifier: Apache-2.0
"""`tf.contrib.layers`: its initializers and regularizers."""

import tensorflow.compat.v1 as tf

from sok_compat.deeprec import contrib

__all__ = ["l1_regularizer", "l2_regularizer", "sum_regularizer", "xavier_initializer"]


def xavier_initializer(uniform=True, seed=None, dtype=tf.float32):
    """Glorot's initializer, of a uniform or a truncated normal distribution."""
    of = tf.glorot_uniform_initializer if uniform else tf.glorot_normal_initializer
    return of(seed=seed, dtype=dtype)


xavier_initializer_conv2d = xavier_initializer


def l1_regularizer(scale, scope=None):
    """A function of weights: scale times the sum of their absolute values."""
    return _regularizer(scale, lambda weights: tf.reduce_sum(tf.abs(weights)), scope or "l1")


def l2_regularizer(scale, scope=None):
    """A function of weights: scale times half the sum of their squares."""
    return _regularizer(scale, tf.nn.l2_loss, scope or "l2")


def sum_regularizer(regularizers, scope=None):
    """A function of weights: what these say together. None stands for none."""
    given = [each for each in regularizers if each is not None]

    def regularizer(weights):
        terms = [term for term in (each(weights) for each in given) if term is not None]
        return tf.add_n(terms, name=scope or "sum_regularizer") if terms else None

    return regularizer if given else None


def _regularizer(scale, measure, name):
    if scale < 0:
        raise ValueError(f"the scale of a regularizer must not be below 0, got {scale}")

    def regularizer(weights):
        with tf.name_scope(f"{name}_regularizer"):
            return tf.multiply(tf.cast(scale, weights.dtype.base_dtype), measure(weights))

    return regularizer if scale else lambda weights: None


def __getattr__(name):
    raise contrib.missing(f"layers.{name}")
