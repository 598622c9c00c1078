# SPDX-License-Identifier: Apache-2.0
"""Handles of embedding layers, which tell lookups how to read a table."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.sparse_operation_kit.core.embedding_variable import EmbeddingVariable
from sok_compat.sparse_operation_kit.core.graph_keys import GraphKeys
from sok_compat.sparse_operation_kit.core.initialization import current_initialization

__all__ = [
    "DenseEmbeddingLayerHandle",
    "EmbeddingLayerHandle",
    "GraphKeys",
    "SparseEmbeddingLayerHandle",
]


class EmbeddingLayerHandle:
    """The settings of a layer that its lookups need. API of SparseOperationKit 1.x.

    Each handle is in its graph's collection GraphKeys.SparseOperationKitEmbeddingLayers.
    """

    def __init__(
        self,
        embedding_variable: EmbeddingVariable,
        slot_num: int = 1,
        compute_dtype: tf.DType | str | None = None,
        name: str | None = None,
    ) -> None:
        """Makes the handle; a layer makes its own.

        Args:
          embedding_variable: the EmbeddingVariable to read.
          slot_num: slots of a sample.
          compute_dtype: dtype of the output; None: float32.
          name: name of the layer, for messages; None: the variable's name.
        """
        self.embedding_variable = embedding_variable
        self.slot_num = slot_num
        self.compute_dtype = tf.as_dtype(compute_dtype or tf.float32)
        self.layer_name = name or embedding_variable.m_var_name
        with tf.init_scope():
            self._initializer = tf.no_op("embedding_layer")
            if not tf.executing_eagerly():
                tf.compat.v1.add_to_collection(GraphKeys.SparseOperationKitEmbeddingLayers, self)

    @property
    def initializer(self) -> tf.Operation | None:
        """An op that does nothing, or None in eager mode: only the table needs initialization."""
        return self._initializer

    @property
    def name(self) -> str:
        """The name of `initializer`, which stands for the handle in a meta graph.

        In eager mode the name of the layer.
        """
        return self.layer_name if self._initializer is None else self._initializer.name

    @property
    def handle(self) -> tf.Tensor:
        """The table's resource handle, `embedding_variable.emb_handle`."""
        return self.embedding_variable.emb_handle

    def __repr__(self):
        return f"<{type(self).__name__} of {self.embedding_variable.name}>"


class DenseEmbeddingLayerHandle(EmbeddingLayerHandle):
    """The handle of lookups without pooling, such as those of All2AllDenseEmbedding.

    API of SparseOperationKit 1.x.
    """

    def __init__(
        self,
        embedding_variable: EmbeddingVariable,
        *components: Any,
        slot_num: int = 1,
        nnz_per_slot: int = 1,
        compute_dtype: tf.DType | str | None = None,
        name: str | None = None,
        **named_components: Any,
    ) -> None:
        """Makes the handle.

        Args:
          embedding_variable: as of the base class, like slot_num, compute_dtype and name.
          *components: ignored; SparseOperationKit's names of dispatchers and lookupers.
          slot_num: see embedding_variable.
          nnz_per_slot: keys in each slot.
          compute_dtype: see embedding_variable.
          name: see embedding_variable.
          **named_components: ignored, like components.
        """
        del components, named_components
        super().__init__(embedding_variable, slot_num, compute_dtype, name)
        self.nnz_per_slot = nnz_per_slot


class SparseEmbeddingLayerHandle(EmbeddingLayerHandle):
    """The handle of lookups that pool the rows of a slot, such as DistributedEmbedding's.

    API of SparseOperationKit 1.x.
    """

    def __init__(
        self,
        embedding_variable: EmbeddingVariable,
        *components: Any,
        slot_num: int = 1,
        max_nnz: int = 1,
        max_feature_num: int = 1,
        combiner: str = "sum",
        compute_dtype: tf.DType | str | None = None,
        name: str | None = None,
        **named_components: Any,
    ) -> None:
        """Makes the handle.

        Args:
          embedding_variable: as of the base class, like slot_num, compute_dtype and name.
          *components: ignored; SparseOperationKit's names of dispatchers and executors.
          slot_num: see embedding_variable.
          max_nnz: most keys in a slot.
          max_feature_num: kept as an attribute.
          combiner: 'sum' or 'mean'.
          compute_dtype: see embedding_variable.
          name: see embedding_variable.
          **named_components: ignored, like components.
        """
        del components, named_components
        super().__init__(embedding_variable, slot_num, compute_dtype, name)
        self.max_nnz = max_nnz
        self.max_feature_num = max_feature_num
        self.combiner = combiner
        if tf.is_symbolic_tensor(embedding_variable.emb_handle):  # else at the first lookup
            checked = current_initialization(type(self).__name__).tables
            checked.append(f"lookups in {embedding_variable.m_var_name}: combiner {combiner}")
