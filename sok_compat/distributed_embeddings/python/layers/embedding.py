# SPDX-License-Identifier: Apache-2.0
"""Keras layers on ordinary variables: `Embedding` and `ConcatOneHotEmbedding`."""

import itertools

import tensorflow as tf

from sok_compat.distributed_embeddings.integer_lookup import IntegerLookup
from sok_compat.distributed_embeddings.python.ops.embedding_lookup_ops import (
    checked_combiner,
    embedding_lookup,
)
from sok_compat.runtime.tf_versions import keras

__all__ = ["CPUInitializer", "ConcatOneHotEmbedding", "Embedding", "IntegerLookup"]


class CPUInitializer(keras.initializers.Initializer):
    """An initializer that makes its values in the host's memory."""

    def __init__(self, initializer):
        self._initializer = keras.initializers.get(initializer)

    def __call__(self, shape, dtype=None, **kwargs):
        """As the initializer that it was made of."""
        with tf.device("CPU:0"):
            return self._initializer(shape, dtype, **kwargs)

    def get_config(self):
        """The arguments of `__init__`."""
        return {"initializer": keras.initializers.serialize(self._initializer)}


class Embedding(keras.layers.Layer):
    """Integers to rows of a table, pooled or not. API of distributed-embeddings.

    As tf.keras.layers.Embedding, with a combiner, and for ragged and sparse ids too. A sample is
    what is along the last dimension of the ids.

    Attributes:
      embeddings: the variable [input_dim, output_dim], float32 also under mixed precision.
    """

    def __init__(
        self,
        input_dim,
        output_dim,
        embeddings_initializer="uniform",
        embeddings_regularizer=None,
        activity_regularizer=None,
        embeddings_constraint=None,
        combiner=None,
        use_custom_kernel=True,
        **kwargs,
    ):
        """Makes the layer.

        Args:
          input_dim: rows: ids are in [0, input_dim).
          output_dim: floats in a row.
          embeddings_initializer: of the rows.
          embeddings_regularizer: of the rows.
          activity_regularizer: of the output.
          embeddings_constraint: of the rows.
          combiner: 'sum' or 'mean' of the rows of a sample; None: each row is an output.
          use_custom_kernel: kept for the configuration; it changes nothing.
          **kwargs: for the Keras layer.

        Raises:
          ValueError: a size below 1, or an unknown combiner.
        """
        if input_dim <= 0 or output_dim <= 0:
            raise ValueError(
                "Both input_dim and output_dim should be positive, found "
                f"{input_dim} and {output_dim}"
            )
        kwargs.setdefault("input_shape", (None,))  # a Sequential then builds it at once
        super().__init__(**{**kwargs, "autocast": False})
        self.input_dim, self.output_dim = input_dim, output_dim
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.embeddings_regularizer = keras.regularizers.get(embeddings_regularizer)
        self.activity_regularizer = keras.regularizers.get(activity_regularizer)
        self.embeddings_constraint = keras.constraints.get(embeddings_constraint)
        self.combiner = checked_combiner(combiner)
        self.use_custom_kernel = use_custom_kernel

    def build(self, input_shape):
        """Makes the variable."""
        del input_shape
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.input_dim, self.output_dim),
            dtype=tf.float32,
            initializer=CPUInitializer(self.embeddings_initializer),
            regularizer=self.embeddings_regularizer,
            constraint=self.embeddings_constraint,
            experimental_autocast=False,
        )
        self.built = True

    def call(self, inputs):
        """The rows of ids.

        Args:
          inputs: ids, cast to integers where they are none: a tensor of any rank, of which only the
            first size may be unknown; a tf.RaggedTensor [batch, (ids)]; a tf.SparseTensor [batch,
            hotness].

        Returns:
          Without a combiner [*shape of the ids, output_dim], of ragged ids ragged; with one the
          last dimension of the ids is pooled. In the layer's compute dtype.

        Raises:
          ValueError: one-dimensional ids and a combiner; ragged ids of another rank; sparse ids
            without a combiner.
        """
        ids = _as_ids(inputs)
        if isinstance(ids, (tf.RaggedTensor, tf.SparseTensor)):
            output = self._look_up_bags(ids)
        else:
            output = self._look_up_dense(ids)
        if self.compute_dtype not in (None, self.embeddings.dtype.name):
            output = tf.cast(output, self.compute_dtype)
        return output

    def _look_up_bags(self, ids):
        if isinstance(ids, tf.RaggedTensor) and ids.shape.rank != 2:
            raise ValueError(
                "Ragged input should be 2D. Nested ragged is not supported. The shape is "
                f"{ids.shape}"
            )
        return embedding_lookup(self.embeddings, ids, self.combiner)

    def _look_up_dense(self, ids):
        if self.combiner is None:
            return tf.gather(self.embeddings, ids)
        if ids.shape.rank == 1:
            raise ValueError("1D input with combiner is ambiguous. Please create batch dimension.")
        samples, hotness = [-1, *ids.shape[1:-1]], ids.shape[-1]
        if ids.shape.rank > 2:
            ids = tf.reshape(ids, [-1, hotness])
        output = embedding_lookup(self.embeddings, ids, self.combiner)
        return output if len(samples) == 1 else tf.reshape(output, [*samples, self.output_dim])

    def compute_output_shape(self, input_shape):
        """Of `call`'s result."""
        input_shape = tf.TensorShape(input_shape)
        kept = input_shape if self.combiner is None else input_shape[:-1]
        return kept.concatenate([self.output_dim])

    def get_config(self):
        """The arguments of `__init__`."""
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
    def from_config(cls, config):
        """The layer of a configuration, also of one of tf.keras.layers.Embedding, of which
        `mask_zero` and `input_length` are left out."""
        config = {k: v for k, v in config.items() if k not in ("mask_zero", "input_length")}
        return cls(**config)


class ConcatOneHotEmbedding(keras.layers.Layer):
    """Features of one id each, in one table. API of distributed-embeddings.

    Attributes:
      params: the variable [sum of feature_sizes, embedding_width]: the rows of one feature after
        those of another.
    """

    def __init__(self, feature_sizes, embedding_width):
        """Makes the layer and its variable.

        Args:
          feature_sizes: of each feature, the number of its ids.
          embedding_width: floats in a row.
        """
        super().__init__(dtype=tf.float32)
        self.feature_sizes = [int(size) for size in feature_sizes]
        self.embedding_width = embedding_width
        shape = (sum(self.feature_sizes), embedding_width)
        self.params = self.add_weight(name="params", shape=shape, dtype=tf.float32)

    def call(self, inputs):
        """The rows of ids [batch, features]: [batch, features, embedding_width].

        Raises:
          ValueError: another number of features.
          tf.errors.InvalidArgumentError: when run: an id that its feature does not have.
        """
        ids = _as_ids(inputs)
        sizes = list(self.feature_sizes)  # Keras has wrapped it
        if ids.shape.rank != 2 or ids.shape[1] != len(sizes):
            raise ValueError(
                f"{self.name}: ids must be [batch, {len(sizes)}], one for each feature, got the "
                f"shape {ids.shape}"
            )
        offsets = tf.constant([0, *itertools.accumulate(sizes)][:-1], ids.dtype)
        is_there = tf.reduce_all((ids >= 0) & (ids < tf.constant(sizes, ids.dtype)))
        message = f"{self.name}: ids must be at least 0 and below {sizes}, got"
        check = tf.debugging.Assert(is_there, [message, ids])
        with tf.control_dependencies([] if check is None else [check]):
            return tf.gather(self.params, ids + offsets)

    def get_config(self):
        """The arguments of `__init__`."""
        return {"feature_sizes": self.feature_sizes, "embedding_width": self.embedding_width}


def _as_ids(inputs):
    """`inputs` as int32 or int64."""
    if not isinstance(inputs, (tf.RaggedTensor, tf.SparseTensor)):
        inputs = tf.convert_to_tensor(inputs)
    if inputs.dtype in (tf.int32, tf.int64):
        return inputs
    return tf.cast(inputs, tf.int64 if inputs.dtype in (tf.uint32, tf.uint64) else tf.int32)
