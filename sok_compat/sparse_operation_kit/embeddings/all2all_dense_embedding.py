# SPDX-License-Identifier: Apache-2.0
"""`All2AllDenseEmbedding`: the same number of keys in each slot, not pooled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sok_compat.runtime.checked_values import checked_count
from sok_compat.runtime.known_words import KERAS_LAYER_WORDS, checks_words
from sok_compat.sparse_operation_kit.core.embedding_layer_handle import DenseEmbeddingLayerHandle
from sok_compat.sparse_operation_kit.embeddings.arguments import checked_flag
from sok_compat.sparse_operation_kit.embeddings.embedding_layer import EmbeddingLayer
from sok_compat.sparse_operation_kit.embeddings.embedding_ops import embedding_lookup
from sok_compat.tables.first_value import Initializer

if TYPE_CHECKING:
    import tensorflow as tf


class All2AllDenseEmbedding(EmbeddingLayer):
    """Looks up each key of a dense batch. API of SparseOperationKit 1.x.

    ```
    layer = sok.All2AllDenseEmbedding(
        max_vocabulary_size_per_gpu=1000, embedding_vec_size=16, slot_num=3, nnz_per_slot=5)
    vectors = layer(keys)  # [batch, 3, 5] -> [batch, 3, 5, 16]; also [batch, 3] -> [batch, 3, 16]
    ```
    """

    @checks_words(KERAS_LAYER_WORDS)
    def __init__(
        self,
        max_vocabulary_size_per_gpu: int,
        embedding_vec_size: int,
        slot_num: int,
        nnz_per_slot: int,
        dynamic_input: bool = False,
        use_hashtable: bool = True,
        key_dtype: tf.DType | str | None = None,
        embedding_initializer: Initializer = None,
        **kwargs: Any,
    ) -> None:
        """Makes the layer and its table.

        Args:
          max_vocabulary_size_per_gpu: capacity in rows on each rank; a limit, not an allocation.
          embedding_vec_size: floats in a row.
          slot_num: slots of a sample.
          nnz_per_slot: keys in each slot.
          dynamic_input: whether inputs of rank 3 need not be [batch, slot_num, nnz_per_slot].
          use_hashtable: False: keys are in [0, capacity * ranks) and need no hash table.
          key_dtype: int64 (also None) or uint32.
          embedding_initializer: None (uniform within 0.05), a Keras name, or an initializer
            of Keras or TF1.
          **kwargs: for the Keras layer.

        Raises:
          RuntimeError: sok.Init has not been called, or a tf.distribute strategy has several
            replicas.
          ValueError: an argument is out of range.
        """
        super().__init__(
            max_vocabulary_size_per_gpu,
            embedding_vec_size,
            slot_num,
            use_hashtable,
            key_dtype,
            embedding_initializer,
            **kwargs,
        )
        self.nnz_per_slot = checked_count("nnz_per_slot", nnz_per_slot, 1)
        self.dynamic_input = checked_flag("dynamic_input", dynamic_input)
        self.set_handle(DenseEmbeddingLayerHandle, nnz_per_slot=self.nnz_per_slot)

    def call(self, inputs: tf.Tensor, training: bool | tf.Tensor = True) -> tf.Tensor:
        """Looks up the row of each key.

        Args:
          inputs: keys of any shape, such as [batch, slot_num, nnz_per_slot], [batch, slots] or [n],
            in the key_dtype, or int32 for int64. The batch may differ from step to step.
          training: a bool or scalar bool tensor. False: unknown keys give their first value and are
            not inserted.

        Returns:
          [*shape of inputs, embedding_vec_size].

        Raises:
          TypeError: inputs is not a dense tensor.
          ValueError: the dtype or the static shape of inputs does not fit.
          tf.errors.InvalidArgumentError: when run: the shape does not fit, or a key is out of range
            without a hash table.
          tf.errors.ResourceExhaustedError: when run: the table is full; its contents are intact.
        """
        return embedding_lookup(self.var, inputs, training, self.dynamic_input)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `__init__`."""
        return {
            **super().get_config(),
            "nnz_per_slot": self.nnz_per_slot,
            "dynamic_input": self.dynamic_input,
        }
