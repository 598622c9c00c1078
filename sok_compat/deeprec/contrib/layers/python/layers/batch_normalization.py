# SPDX-License-Identifier: Apache-2.0
"""`tf.contrib.layers.batch_norm`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from sok_compat.deeprec.contrib.arg_scopes import add_arg_scope
from sok_compat.deeprec.contrib.layers.python.layers.layer_parts import (
    Activation,
    Collections,
    OutputCollections,
    activated,
    constant_bool,
    either,
    refuse,
    variable,
)
from sok_compat.runtime.tf_versions import moving_averages

_Pair = tuple[tf.Tensor, tf.Tensor]  # mean and variance


@add_arg_scope
def batch_norm(
    inputs: Any,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Activation = None,
    param_initializers: Mapping[str, Any] | None = None,
    param_regularizers: Mapping[str, Any] | None = None,
    updates_collections: OutputCollections = tf.GraphKeys.UPDATE_OPS,
    is_training: Any = True,
    reuse: bool | None = None,
    variables_collections: Collections = None,
    outputs_collections: OutputCollections = None,
    trainable: bool = True,
    batch_weights: Any = None,
    fused: bool | None = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: str | tf.VariableScope | None = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_decay: float = 0.99,
    adjustment: Any = None,
) -> tf.Tensor:
    """Batch normalization over all but the last dimension.

    Variables: moving_mean, moving_variance, beta if `center`, gamma if `scale`, in the scope
    "BatchNorm" by default.

    Args:
      is_training: a bool, or a boolean tensor.
      updates_collections: of the updates of moving averages, which the training step has to run;
        None: they run with the layer.

    Raises:
      ValueError: inputs have no known last dimension.
      NotImplementedError: batch_weights, renorm, an adjustment; another data_format than NHWC.
    """
    del renorm_clipping, renorm_decay  # of renorm
    refuse("batch_norm", batch_weights=batch_weights, renorm=renorm, adjustment=adjustment)
    refuse("batch_norm", data_format=data_format != "NHWC" and data_format)
    with tf.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse):
        inputs = tf.convert_to_tensor(inputs)
        make = _maker(inputs, param_initializers, param_regularizers, variables_collections)
        beta = make("beta", tf.zeros_initializer(), trainable) if center else None
        gamma = make("gamma", tf.ones_initializer(), trainable) if scale else None
        with tf.variable_scope(tf.get_variable_scope()) as whole:
            whole.set_partitioner(None)
            moving_mean = make("moving_mean", tf.zeros_initializer(), False)
            moving = moving_mean, make("moving_variance", tf.ones_initializer(), False)
        normalize = _normalizer(inputs, beta, gamma, epsilon, fused)
        outputs, *batch = either(is_training, normalize, lambda: normalize(moving))
        outputs.set_shape(inputs.shape)
        if constant_bool(is_training) is not False:
            updates = _Updates(is_training, moving, batch, decay, zero_debias_moving_mean)
            outputs = updates.run_with(outputs, updates_collections)
        return activated(outputs, activation_fn, outputs_collections)


def _maker(inputs, initializers, regularizers, collections):
    """A function of (name, initializer, trainable) that makes or finds a variable."""
    size = inputs.shape[-1] if inputs.shape.rank else None
    if size is None:
        raise ValueError(
            f"batch_norm: the last dimension of inputs must be known, got the shape {inputs.shape}"
        )
    is_narrow = inputs.dtype.base_dtype in (tf.float16, tf.bfloat16)
    dtype = tf.float32 if is_narrow else inputs.dtype.base_dtype

    def make(name: str, initializer: Any, trainable: bool) -> tf.Variable:
        initializer = (initializers or {}).get(name, initializer)
        regularizer = (regularizers or {}).get(name) if name in ("beta", "gamma") else None
        return variable(name, [size], initializer, dtype, collections, trainable, regularizer)

    return make


def _normalizer(
    inputs: tf.Tensor, beta: Any, gamma: Any, epsilon: float, fused: bool | None
) -> Callable[..., tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
    """A function of (mean, variance), or of nothing: the batch's, to (outputs, mean, variance).

    The batch's variance is divided by n - 1 where TensorFlow 1 uses its fused op, else by n.
    """

    def fused_normalized(given: _Pair | None = None) -> Any:
        size = inputs.shape[-1]
        images = inputs if inputs.shape.rank == 4 else tf.reshape(inputs, [-1, 1, 1, size])
        outputs, *of_batch = tf.nn.fused_batch_norm(
            images,
            tf.ones([size]) if gamma is None else gamma,
            tf.zeros([size]) if beta is None else beta,
            *(given or (None, None)),
            epsilon=epsilon,
            is_training=given is None,
        )
        return (tf.reshape(outputs, tf.shape(inputs)), *of_batch)

    def normalized(given: _Pair | None = None) -> Any:
        mean, variance = given or tf.nn.moments(inputs, list(range(inputs.shape.rank - 1)))
        like = [
            each if each is None else tf.cast(each, inputs.dtype)
            for each in (mean, variance, beta, gamma)
        ]
        return tf.nn.batch_normalization(inputs, *like, epsilon), mean, variance

    return fused_normalized if inputs.shape.rank in (2, 4) and fused is not False else normalized


class _Updates:
    """Updates of moving averages in a training step."""

    def __init__(self, is_training, moving, batch, decay, debias_mean):
        self._is_training = is_training
        self._moving, self._batch = moving, batch
        self._decay, self._debias = decay, (debias_mean, False)

    def _update(self):
        return [
            tf.identity(moving_averages.assign_moving_average(average, value, self._decay, debias))
            for average, value, debias in zip(self._moving, self._batch, self._debias)
        ]

    def run_with(self, outputs, collections):
        """The outputs; with collections None, they wait for the updates."""
        if collections is None:

            def updated():
                with tf.control_dependencies(self._update()):
                    return tf.identity(outputs)

            return either(self._is_training, updated, lambda: tf.identity(outputs))

        def unchanged():
            return [tf.identity(average) for average in self._moving]

        for each in either(self._is_training, self._update, unchanged):
            tf.add_to_collections(collections, each)
        return outputs
