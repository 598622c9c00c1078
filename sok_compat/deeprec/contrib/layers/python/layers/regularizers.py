# SPDX-License-Identifier: Apache-2.0
"""Regularizers of `tf.contrib.layers`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Optional

import tensorflow.compat.v1 as tf

_Regularizer = Callable[[tf.Tensor], Optional[tf.Tensor]]

__all__ = ["l1_l2_regularizer", "l1_regularizer", "l2_regularizer", "sum_regularizer"]


def l1_regularizer(scale: float, scope: str | None = None) -> _Regularizer:
    """A function of weights: scale times the sum of their absolute values."""
    return _regularizer(scale, lambda weights: tf.reduce_sum(tf.abs(weights)), scope or "l1")


def l2_regularizer(scale: float, scope: str | None = None) -> _Regularizer:
    """A function of weights: scale times half the sum of their squares."""
    return _regularizer(scale, tf.nn.l2_loss, scope or "l2")


def l1_l2_regularizer(
    scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None
) -> _Regularizer | None:
    """A function of weights: the sum of both."""
    scope = scope or "l1_l2_regularizer"
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope)


def sum_regularizer(
    regularizers: Iterable[_Regularizer | None], scope: str | None = None
) -> _Regularizer | None:
    """A function of weights: the sum of these regularizers, ignoring None; None if all are."""
    given = [each for each in regularizers if each is not None]

    def regularizer(weights: tf.Tensor) -> tf.Tensor | None:
        terms = [term for term in (each(weights) for each in given) if term is not None]
        return tf.add_n(terms, name=scope or "sum_regularizer") if terms else None

    return regularizer if given else None


def _regularizer(
    scale: float, measure: Callable[[tf.Tensor], tf.Tensor], name: str
) -> _Regularizer:
    if scale < 0:
        raise ValueError(f"the scale of a regularizer must be at least 0, got {scale}")

    def regularizer(weights: tf.Tensor) -> tf.Tensor:
        with tf.name_scope(f"{name}_regularizer"):
            return tf.multiply(tf.cast(scale, weights.dtype.base_dtype), measure(weights))

    return regularizer if scale else lambda weights: None
