# SPDX-License-Identifier: Apache-2.0
"""`DistributedEmbedding`: several keys in each slot, pooled."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.runtime.checked_values import checked_count
from sok_compat.runtime.known_words import KERAS_LAYER_WORDS, checks_words
from sok_compat.runtime.tf_versions import is_computing_shapes
from sok_compat.sparse_operation_kit.core.embedding_layer_handle import SparseEmbeddingLayerHandle
from sok_compat.sparse_operation_kit.embeddings.embedding_layer import EmbeddingLayer
from sok_compat.sparse_operation_kit.embeddings.embedding_ops import embedding_lookup_sparse
from sok_compat.tables.first_value import Initializer

COMBINERS = ("mean", "sum")


class DistributedEmbedding(EmbeddingLayer):
    """Looks up the keys of each slot and pools their rows. API of SparseOperationKit 1.x.

    ```
    layer = sok.DistributedEmbedding(
        "sum", max_vocabulary_size_per_gpu=1000, embedding_vec_size=16, slot_num=3, max_nnz=5)
    vectors = layer(sp_ids)  # [batch * 3, 5] sparse -> [batch, 3, 16]
    ```
    """

    @checks_words(KERAS_LAYER_WORDS)
    def __init__(
        self,
        combiner: str,
        max_vocabulary_size_per_gpu: int,
        embedding_vec_size: int,
        slot_num: int,
        max_nnz: int,
        max_feature_num: int = 1,
        use_hashtable: bool = True,
        key_dtype: tf.DType | str | None = None,
        embedding_initializer: Initializer = None,
        **kwargs: Any,
    ) -> None:
        """Makes the layer and its table.

        Args:
          combiner: 'sum' or 'mean', in upper or lower case; the mean is over the keys in the slot,
            repeats counted.
          max_vocabulary_size_per_gpu: capacity in rows on each rank; a limit, not an allocation.
          embedding_vec_size: floats in a row.
          slot_num: slots of a sample.
          max_nnz: most keys in one slot.
          max_feature_num: most keys in one sample, in [1, slot_num * max_nnz]; 1 stands for
            slot_num * max_nnz. Kept for compatibility; it makes no difference.
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
        self.combiner = _checked_combiner(combiner)
        self.max_nnz = checked_count("max_nnz", max_nnz, 1)
        most_keys = self.slot_num * self.max_nnz
        if checked_count("max_feature_num", max_feature_num, 1) > most_keys:
            raise ValueError(
                f"max_feature_num must be in [1, slot_num * max_nnz = {most_keys}], got "
                f"{max_feature_num}"
            )
        self.max_feature_num = most_keys if max_feature_num == 1 else max_feature_num
        self.set_handle(
            SparseEmbeddingLayerHandle,
            max_nnz=self.max_nnz,
            max_feature_num=self.max_feature_num,
            combiner=self.combiner,
        )

    def call(
        self, inputs: tf.SparseTensor | tf.RaggedTensor, training: bool | tf.Tensor = True
    ) -> tf.Tensor:
        """Looks up the keys of each slot and pools their rows.

        Args:
          inputs: tf.SparseTensor [batch * slot_num, max_nnz] of keys in row order, where row =
            sample * slot_num + slot; or tf.RaggedTensor [batch * slot_num, (keys)] or
            [batch, slot_num, (keys)]. Keys are in the key_dtype, or int32 for int64. The batch may
            differ from step to step.
          training: a bool or scalar bool tensor. False: unknown keys give their first value and are
            not inserted.

        Returns:
          [batch, slot_num, embedding_vec_size]; slots without keys are zeros.

        Raises:
          TypeError: inputs is neither a SparseTensor nor a RaggedTensor.
          ValueError: its dtype or rank does not fit.
          tf.errors.InvalidArgumentError: when run: the number of rows is not a multiple of
            slot_num, rows are not sorted, a row has more than max_nnz keys, or a key is out of
            range without a hash table.
          tf.errors.ResourceExhaustedError: when run: the table is full; its contents are intact.
        """
        if isinstance(inputs, tf.Tensor) and is_computing_shapes():
            batch = tf.shape(inputs)[0] // (self.slot_num if inputs.shape.rank == 2 else 1)
            return tf.zeros([batch, self.slot_num, self.embedding_vec_size], self.compute_dtype)
        return embedding_lookup_sparse(self.var, inputs, self.slot_num, training)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `__init__`."""
        return {
            **super().get_config(),
            "combiner": self.combiner,
            "max_nnz": self.max_nnz,
            "max_feature_num": self.max_feature_num,
        }


def _checked_combiner(combiner: str) -> str:
    name = combiner.lower() if isinstance(combiner, str) else None
    if name not in COMBINERS:
        raise ValueError(f"combiner must be 'mean' or 'sum' (in any case), got {combiner!r}")
    return name
