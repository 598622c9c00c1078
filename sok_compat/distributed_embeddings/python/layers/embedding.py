# SPDX-License-Identifier: Apache-2.0
"""Keras layers on ordinary variables: `Embedding` and `ConcatOneHotEmbedding`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat.distributed_embeddings.integer_lookup import IntegerLookup
from sok_compat.distributed_embeddings.python.ops.embedding_lookup_ops import (
    Ids,
    checked_combiner,
    embedding_lookup,
)
from sok_compat.runtime.checked import checked
from sok_compat.runtime.known_words import KERAS_LAYER_WORDS, checks_words
from sok_compat.runtime.tf_versions import NO_AUTOCAST, keras_3, variable_of
from sok_compat.runtime.tf_versions import keras_of_layers as keras

__all__ = ["CPUInitializer", "ConcatOneHotEmbedding", "Embedding", "IntegerLookup"]


class CPUInitializer(keras.initializers.Initializer):
    """An initializer that makes its values in the host's memory. API of distributed-embeddings."""

    def __init__(self, initializer: Any) -> None:
        """Wraps an initializer.

        Args:
          initializer: of Keras, or the name of one.
        """
        self._initializer = keras.initializers.get(initializer)

    def __call__(self, shape: Any, dtype: tf.DType | str | None = None, **kwargs: Any) -> tf.Tensor:
        """Returns the values of the wrapped initializer."""
        with tf.device("CPU:0"):
            return self._initializer(shape, dtype, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `__init__`."""
        return {"initializer": keras.initializers.serialize(self._initializer)}


class Embedding(keras.layers.Layer):
    """Looks up the rows of ids in a table, pooled or not. API of distributed-embeddings.

    Like tf.keras.layers.Embedding, but with a combiner, and also for ragged and sparse ids. The
    last dimension of the ids holds those of one sample.

    Attributes:
      embeddings: the variable [input_dim, output_dim], float32 even under mixed precision.
    """

    @checks_words(KERAS_LAYER_WORDS)
    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        activity_regularizer: Any = None,
        embeddings_constraint: Any = None,
        combiner: str | None = None,
        use_custom_kernel: bool = True,
        **kwargs: Any,
    ) -> None:
        """Makes the layer.

        Args:
          input_dim: number of rows; ids are in [0, input_dim).
          output_dim: floats in a row.
          embeddings_initializer: initializer of the rows.
          embeddings_regularizer: regularizer of the rows.
          activity_regularizer: regularizer of the output.
          embeddings_constraint: constraint on the rows.
          combiner: 'sum' or 'mean' of the rows of a sample; None: each row is an output.
          use_custom_kernel: kept for the configuration; makes no difference.
          **kwargs: for the Keras layer.

        Raises:
          ValueError: a size is not an int or below 1, or the combiner is unknown.
        """
        sizes = input_dim, output_dim
        if not all(isinstance(size, (int, np.integer)) and size >= 1 for size in sizes):
            raise ValueError(
                "Both input_dim and output_dim should be positive, found "
                f"{input_dim!r} and {output_dim!r}; both are ints"
            )
        if keras_3 is None:
            kwargs.setdefault("input_shape", (None,))  # a Sequential then builds it at once
        weights = None if keras_3 is None else kwargs.pop("weights", None)
        super().__init__(**{**kwargs, "dtype": float_dtype(kwargs.get("dtype")), "autocast": False})
        self.input_dim, self.output_dim = input_dim, output_dim
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.embeddings_regularizer = keras.regularizers.get(embeddings_regularizer)
        self.activity_regularizer = keras.regularizers.get(activity_regularizer)
        self.embeddings_constraint = keras.constraints.get(embeddings_constraint)
        self.combiner = checked_combiner(combiner)
        self.use_custom_kernel = use_custom_kernel
        if weights is not None:  # layers of Keras 2 do so themselves
            self.build(None)
            self.set_weights(weights if isinstance(weights, list) else [weights])

    def build(self, input_shape: Any) -> None:
        """Makes the variable."""
        del input_shape
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.input_dim, self.output_dim),
            dtype=tf.float32,
            initializer=CPUInitializer(self.embeddings_initializer),
            regularizer=self.embeddings_regularizer,
            constraint=self.embeddings_constraint,
            **NO_AUTOCAST,
        )
        self.built = True

    def call(self, inputs: Ids) -> tf.Tensor | tf.RaggedTensor:
        """Returns the rows of ids.

        Args:
          inputs: ids, cast to integers if need be: a tensor of any rank with only the first
            dimension unknown, a tf.RaggedTensor [batch, (ids)], or a tf.SparseTensor [batch,
            hotness].

        Returns:
          [*shape of the ids, output_dim], ragged for ragged ids, in the layer's compute dtype. A
          combiner pools the last dimension of the ids.

        Raises:
          ValueError: one-dimensional ids with a combiner; ragged ids of another rank; sparse ids
            without a combiner.
        """
        ids = _as_ids(inputs)
        if isinstance(ids, (tf.RaggedTensor, tf.SparseTensor)):
            output = self._look_up_bags(ids)
        else:
            output = self._look_up_dense(ids)
        if self.compute_dtype not in (None, output.dtype.name):
            output = tf.cast(output, self.compute_dtype)
        return output

    def _look_up_bags(self, ids: tf.RaggedTensor | tf.SparseTensor) -> tf.Tensor | tf.RaggedTensor:
        if isinstance(ids, tf.RaggedTensor) and ids.shape.rank != 2:
            raise ValueError(
                "Ragged input should be 2D. Nested ragged is not supported. The shape is "
                f"{ids.shape}"
            )
        return embedding_lookup(variable_of(self.embeddings), ids, self.combiner)

    def _look_up_dense(self, ids: tf.Tensor) -> tf.Tensor:
        if self.combiner is None:
            return tf.gather(variable_of(self.embeddings), ids)
        if ids.shape.rank in (0, 1):
            raise ValueError("1D input with combiner is ambiguous. Please create batch dimension.")
        sizes: list[int] = [-1, *ids.shape.as_list()[1:]]
        *samples, hotness = sizes
        if ids.shape.rank > 2:
            ids = tf.reshape(ids, [-1, hotness])
        output = embedding_lookup(variable_of(self.embeddings), ids, self.combiner)
        return output if len(samples) == 1 else tf.reshape(output, [*samples, self.output_dim])

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of `call`'s result."""
        input_shape = tf.TensorShape(input_shape)
        kept = input_shape if self.combiner is None else input_shape[:-1]
        shape = kept.concatenate([self.output_dim])
        return shape if keras_3 is None else tuple(shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `__init__`."""
        return {
            **super().get_config(),
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
            "embeddings_regularizer": keras.regularizers.serialize(self.embeddings_regularizer),
            "activity_regularizer": keras.regularizers.serialize(self.activity_regularizer),
            "embeddings_constraint": keras.constraints.serialize(self.embeddings_constraint),
            "combiner": self.combiner,
            "use_custom_kernel": self.use_custom_kernel,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Embedding:
        """Makes a layer from its configuration or that of a tf.keras.layers.Embedding.

        `mask_zero`, `input_length` and `quantization_config` of the latter are left out.
        """
        left_out = ("mask_zero", "input_length", "quantization_config")
        config = {k: v for k, v in config.items() if k not in left_out}
        return cls(**config)


class ConcatOneHotEmbedding(keras.layers.Layer):
    """Several features of one id each, in one table. API of distributed-embeddings.

    Attributes:
      params: the variable [sum of feature_sizes, embedding_width], the rows of one feature after
        those of another.
    """

    def __init__(self, feature_sizes: Sequence[int], embedding_width: int) -> None:
        """Makes the layer and its variable.

        Args:
          feature_sizes: number of ids of each feature.
          embedding_width: floats in a row.
        """
        super().__init__(dtype=tf.float32)
        self.feature_sizes = [int(size) for size in feature_sizes]
        self.embedding_width = embedding_width
        shape = (sum(self.feature_sizes), embedding_width)
        self.params = self.add_weight(name="params", shape=shape, dtype=tf.float32)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns the rows [batch, features, embedding_width] of ids [batch, features].

        Raises:
          ValueError: wrong number of features.
          tf.errors.InvalidArgumentError: when run: an id outside of its feature's range.
        """
        ids = _as_ids(inputs)
        sizes = list(self.feature_sizes)  # Keras has wrapped it
        if ids.shape.rank != 2 or ids.shape.as_list()[1] != len(sizes):
            raise ValueError(
                f"{self.name}: ids must be [batch, {len(sizes)}], one for each feature, got the "
                f"shape {ids.shape}"
            )
        offsets = tf.constant([0, *itertools.accumulate(sizes)][:-1], ids.dtype)
        is_there = tf.reduce_all((ids >= 0) & (ids < tf.constant(sizes, ids.dtype)))
        message = f"{self.name}: ids must be at least 0 and below {sizes}, got"
        return tf.gather(variable_of(self.params), checked(ids, is_there, message, ids) + offsets)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `__init__`."""
        return {"feature_sizes": self.feature_sizes, "embedding_width": self.embedding_width}


def float_dtype(dtype: tf.DType | str | None) -> Any:
    """Returns the dtype, or policy, of a layer on ids: `dtype`, or a default if it is None.

    Under TF1 behaviour a layer without a dtype takes that of its first input, an integer one here.
    """
    if keras_3 is not None:
        return dtype or keras.config.dtype_policy()
    policy = keras.mixed_precision.global_policy()
    return dtype or (policy if policy.compute_dtype else keras.backend.floatx())


def _as_ids(inputs: Any) -> Ids:
    """`inputs` as int32 or int64."""
    if not isinstance(inputs, (tf.RaggedTensor, tf.SparseTensor)):
        inputs = tf.convert_to_tensor(inputs)
    if inputs.dtype in (tf.int32, tf.int64):
        return inputs
    return tf.cast(inputs, tf.int64 if inputs.dtype in (tf.uint32, tf.uint64) else tf.int32)
