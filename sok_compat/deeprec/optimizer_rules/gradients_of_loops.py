# SPDX-License-Identifier: Apache-2.0
"""Gradients of lookups in TF1's tf.while_loop."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.deeprec.variables.embedding_variable import EmbeddingVariable


def without_zeros_of_loops(gradient: Any, variable: Any) -> Any:
    """A gradient without the slice of zeros that TensorFlow starts the sum of a loop with.

    It is of row 0, so an optimizer such as Adam would move the row that a table has there. Loops
    within loops keep theirs.
    """
    if not isinstance(variable, EmbeddingVariable) or not isinstance(gradient, tf.IndexedSlices):
        return gradient
    values, indices = gradient.values, gradient.indices
    if not tf.is_symbolic_tensor(indices) or not any(map(_is_of_loop, _summed(indices))):
        return gradient
    parts = [
        (value[1:], index[1:]) if _is_of_loop(value) and _is_of_loop(index) else (value, index)
        for value, index in zip(_summed(values), _summed(indices))
    ]
    values, indices = (tf.concat(each, axis=0) for each in zip(*parts))
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


def _summed(tensor: tf.Tensor) -> list[tf.Tensor]:
    """The parts, from several lookups, of a gradient's values or indices."""
    is_sum = tensor.op.type == "ConcatV2"
    return list(tensor.op.inputs)[:-1] if is_sum else [tensor]


def _is_of_loop(tensor: tf.Tensor) -> bool:
    return tensor.op.type == "Exit"
