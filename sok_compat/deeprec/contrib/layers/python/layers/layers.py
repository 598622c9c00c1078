# SPDX-License-Identifier: Apache-2.0
"""Layers of `tf.contrib.layers`.

Names of variables, collections, defaults and numbers are those of
tensorflow/contrib/layers/python/layers/layers.py of TensorFlow 1.15, so that its checkpoints fit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from sok_compat.deeprec.contrib.arg_scopes import add_arg_scope
from sok_compat.deeprec.contrib.layers.python.layers.batch_normalization import (
    batch_norm as batch_norm,
)
from sok_compat.deeprec.contrib.layers.python.layers.layer_parts import (
    Activation,
    Collections,
    OutputCollections,
    activated,
    either,
    refuse,
    variable,
)

__all__ = [
    *("batch_norm", "dropout", "elu", "flatten", "fully_connected", "layer_norm", "linear"),
    *("relu", "relu6", "stack"),
]


@add_arg_scope
def fully_connected(
    inputs: Any,
    num_outputs: int,
    activation_fn: Activation = tf.nn.relu,
    normalizer_fn: Callable[..., tf.Tensor] | None = None,
    normalizer_params: Mapping[str, Any] | None = None,
    weights_initializer: Any = tf.glorot_uniform_initializer,
    weights_regularizer: Any = None,
    biases_initializer: Any = tf.zeros_initializer,
    biases_regularizer: Any = None,
    reuse: bool | None = None,
    variables_collections: Collections = None,
    outputs_collections: OutputCollections = None,
    trainable: bool = True,
    scope: str | tf.VariableScope | None = None,
) -> tf.Tensor:
    """activation_fn(inputs * weights + biases): variables <scope>/weights and <scope>/biases.

    A normalizer_fn takes the place of the biases. `scope` is "fully_connected" by default.

    Args:
      inputs: [..., size]

    Returns:
      [..., num_outputs]

    Raises:
      ValueError: num_outputs is not an int; inputs have no last dimension.
    """
    if not isinstance(num_outputs, int):
        raise ValueError(f"fully_connected: num_outputs must be an int, got {num_outputs!r}")
    with tf.variable_scope(scope, "fully_connected", [inputs], reuse=reuse):
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.rank or 0
        if rank < 2 or inputs.shape[-1] is None:
            raise ValueError(
                f"fully_connected: inputs must be [batch, size], with a known size, or of a higher "
                f"rank, got the shape {inputs.shape}"
            )
        make = functools.partial(
            variable,
            dtype=inputs.dtype.base_dtype,
            collections=variables_collections,
            trainable=trainable,
        )
        shape = [inputs.shape[-1], num_outputs]
        weights = make("weights", shape, weights_initializer, regularizer=weights_regularizer)
        if rank == 2:
            outputs = tf.matmul(inputs, weights)
        else:
            outputs = tf.tensordot(inputs, weights, [[rank - 1], [0]])
        if normalizer_fn is not None:
            outputs = normalizer_fn(outputs, **(normalizer_params or {}))
        elif biases_initializer is not None:
            outputs = tf.nn.bias_add(
                outputs,
                make("biases", [num_outputs], biases_initializer, regularizer=biases_regularizer),
            )
        return activated(outputs, activation_fn, outputs_collections)


elu = functools.partial(fully_connected, activation_fn=tf.nn.elu)
linear = functools.partial(fully_connected, activation_fn=None)
relu = functools.partial(fully_connected, activation_fn=tf.nn.relu)
relu6 = functools.partial(fully_connected, activation_fn=tf.nn.relu6)


@add_arg_scope
def dropout(
    inputs: Any,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: OutputCollections = None,
    scope: str | tf.VariableScope | None = None,
    seed: int | None = None,
) -> tf.Tensor:
    """Inputs divided by keep_prob with this probability, else 0; unchanged outside of training."""
    with tf.variable_scope(scope, "Dropout", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        outputs = either(
            is_training,
            lambda: tf.nn.dropout(inputs, rate=1 - keep_prob, noise_shape=noise_shape, seed=seed),
            lambda: tf.identity(inputs),
        )
        return activated(outputs, None, outputs_collections)


@add_arg_scope
def flatten(
    inputs: Any, outputs_collections: OutputCollections = None, scope: str | None = None
) -> tf.Tensor:
    """[batch, size of all other dimensions]"""
    with tf.name_scope(scope, "Flatten", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        if not inputs.shape.rank:
            raise ValueError(f"flatten: inputs must be [batch, ...], got the shape {inputs.shape}")
        size = inputs.shape[1:].num_elements()
        outputs = tf.reshape(inputs, [tf.shape(inputs)[0], -1 if size is None else size])
        outputs.set_shape([inputs.shape[0], size])
        return activated(outputs, None, outputs_collections)


@add_arg_scope
def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Activation = None,
    reuse: bool | None = None,
    variables_collections: Collections = None,
    outputs_collections: OutputCollections = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: str | tf.VariableScope | None = None,
    use_fused_batch_norm: bool | None = None,
) -> tf.Tensor:
    """Normalizes each sample over the dimensions from begin_norm_axis on.

    Variables: beta if `center`, gamma if `scale`, of the dimensions from begin_params_axis on, in
    the scope "LayerNorm" by default.

    Raises:
      ValueError: inputs have no such dimension, or an unknown one.
      NotImplementedError: use_fused_batch_norm, of DeepRec.
    """
    refuse("layer_norm", use_fused_batch_norm=use_fused_batch_norm)
    with tf.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse):
        inputs = tf.convert_to_tensor(inputs)
        rank, shape = inputs.shape.rank or 0, inputs.shape[begin_params_axis:]
        begin = begin_norm_axis % rank if rank else 0
        if not max(begin_params_axis, begin_norm_axis) < rank or not shape.is_fully_defined():
            raise ValueError(
                f"layer_norm: inputs must have the dimensions {begin_norm_axis} (begin_norm_axis) "
                f"and {begin_params_axis} (begin_params_axis), and know those from the latter on, "
                f"got the shape {inputs.shape}"
            )
        dtype = inputs.dtype.base_dtype
        make = functools.partial(
            variable,
            shape=shape,
            dtype=dtype,
            collections=variables_collections,
            trainable=trainable,
        )
        beta = make("beta", initializer=tf.zeros_initializer()) if center else None
        gamma = make("gamma", initializer=tf.ones_initializer()) if scale else None
        mean, variance = tf.nn.moments(inputs, list(range(begin, rank)), keepdims=True)
        epsilon = 1e-3 if dtype == tf.float16 else 1e-12
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
        outputs.set_shape(inputs.shape)
        return activated(outputs, activation_fn, outputs_collections)


def stack(
    inputs: Any,
    layer: Callable[..., tf.Tensor],
    stack_args: Iterable[Any],
    scope: str | None = None,
    **kwargs: Any,
) -> tf.Tensor:
    """Layers one after another, called <scope>_1 and so on, one for each of stack_args.

    Args:
      stack_args: the arguments of each layer, a list or tuple, or its only one.
      scope: None: the name of the layer.
    """
    named = getattr(layer, "func", layer)
    name = scope or getattr(named, "__name__", "stack")
    with tf.variable_scope(scope, "Stack", [inputs]):
        outputs = inputs
        for number, given in enumerate(stack_args, 1):
            arguments = given if isinstance(given, (list, tuple)) else [given]
            outputs = layer(outputs, *arguments, scope=f"{name}_{number}", **kwargs)
        return outputs
