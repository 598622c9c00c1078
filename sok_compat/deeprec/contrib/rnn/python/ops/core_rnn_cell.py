# SPDX-License-Identifier: Apache-2.0
"""`tensorflow.contrib.rnn.python.ops.core_rnn_cell`: the linear map of cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import tensorflow.compat.v1 as tf

from sok_compat.deeprec import contrib

_KERNEL, _BIAS = "kernel", "bias"  # the names of variables


class _Linear:
    """A linear map of tensors that are joined: concat(args, 1) @ kernel + bias.

    API of TensorFlow 1.
    """

    def __init__(
        self,
        args: tf.Tensor | Sequence[tf.Tensor],
        output_size: int,
        build_bias: bool,
        bias_initializer: Any = None,
        kernel_initializer: Any = None,
    ) -> None:
        """Makes `kernel`, and `bias`, in the current variable scope.

        Args:
          args: a tensor [batch, size], or several; calls pass as many of the same sizes.
          output_size: columns of the result.
          build_bias: whether to add a bias.
          bias_initializer: None: zeros.
          kernel_initializer: None: that of the scope.

        Raises:
          ValueError: no tensor; one that does not have two dimensions, the second of known size.
        """
        tensors = _tensors(args)
        if not tensors:
            raise ValueError("_Linear needs at least one tensor of the shape [batch, size]")
        dtype = tensors[0].dtype
        size = sum(map(_size_of, tensors))
        self._kernel = tf.get_variable(_KERNEL, [size, output_size], dtype, kernel_initializer)
        self._bias: Any = None
        if build_bias:
            if bias_initializer is None:
                bias_initializer = tf.zeros_initializer(dtype)
            self._bias = tf.get_variable(_BIAS, [output_size], dtype, bias_initializer)

    def __call__(self, args: tf.Tensor | Sequence[tf.Tensor]) -> tf.Tensor:
        """[batch, output_size]."""
        tensors = _tensors(args)
        joined = tensors[0] if len(tensors) == 1 else tf.concat(tensors, 1)
        mapped = tf.matmul(joined, self._kernel)
        return mapped if self._bias is None else tf.nn.bias_add(mapped, self._bias)


def _tensors(args: Any) -> list[tf.Tensor]:
    given = args if isinstance(args, (list, tuple)) else [args]
    return [tf.convert_to_tensor(each) for each in given]


def _size_of(tensor: tf.Tensor) -> int:
    if tensor.shape.rank != 2 or tensor.shape.dims[1].value is None:
        raise ValueError(f"_Linear takes tensors of the shape [batch, size], got {tensor.shape}")
    return int(tensor.shape.dims[1].value)


def __getattr__(name: str) -> NoReturn:
    raise contrib.missing(f"rnn.python.ops.core_rnn_cell.{name}")
