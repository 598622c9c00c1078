# SPDX-License-Identifier: Apache-2.0
"""Handles of embedding layers: how a lookup reads a table, beside the Keras layer that asks."""

import tensorflow as tf

from sok_compat.sparse_operation_kit.core.graph_keys import GraphKeys
from sok_compat.sparse_operation_kit.core.initialization import current_initialization

__all__ = [
    "DenseEmbeddingLayerHandle",
    "EmbeddingLayerHandle",
    "GraphKeys",
    "SparseEmbeddingLayerHandle",
]


class EmbeddingLayerHandle:
    """What a lookup has to know of its layer. API of SparseOperationKit 1.x.

    Each one is in its graph's collection GraphKeys.SparseOperationKitEmbeddingLayers.
    """

    def __init__(self, embedding_variable, slot_num=1, compute_dtype=None, name=None):
        """Makes the handle; a layer makes its own.

        Args:
          embedding_variable: the EmbeddingVariable that is read.
          slot_num: slots of a sample.
          compute_dtype: of the output; None: float32.
          name: of the layer, for messages; None: the variable's.
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
    def initializer(self):
        """An op that does nothing (in eager mode None): only the table has to be initialized."""
        return self._initializer

    @property
    def name(self):
        """The name of `initializer`, which stands for the handle in a meta graph; in eager mode the
        layer's."""
        return self.layer_name if self._initializer is None else self._initializer.name

    @property
    def handle(self):
        """The table's resource handle, `embedding_variable.emb_handle`."""
        return self.embedding_variable.emb_handle

    def __repr__(self):
        return f"<{type(self).__name__} of {self.embedding_variable.name}>"


class DenseEmbeddingLayerHandle(EmbeddingLayerHandle):
    """Of lookups that do not pool, as All2AllDenseEmbedding's."""

    def __init__(
        self,
        embedding_variable,
        *components,
        slot_num=1,
        nnz_per_slot=1,
        compute_dtype=None,
        name=None,
        **named_components,
    ):
        """As of the base class, and:

        Args:
          *components: SparseOperationKit's names of dispatchers and lookupers, ignored: there is
            one way to look up.
          nnz_per_slot: keys in each slot.
          **named_components: as components.
        """
        del components, named_components
        super().__init__(embedding_variable, slot_num, compute_dtype, name)
        self.nnz_per_slot = nnz_per_slot


class SparseEmbeddingLayerHandle(EmbeddingLayerHandle):
    """Of lookups that pool the rows of a slot, as DistributedEmbedding's."""

    def __init__(
        self,
        embedding_variable,
        *components,
        slot_num=1,
        max_nnz=1,
        max_feature_num=1,
        combiner="sum",
        compute_dtype=None,
        name=None,
        **named_components,
    ):
        """As of the base class, and:

        Args:
          *components: SparseOperationKit's names of dispatchers and executors, ignored: there is
            one way to look up.
          max_nnz: most keys in a slot.
          max_feature_num: kept as an attribute.
          combiner: 'sum' or 'mean'.
          **named_components: as components.
        """
        del components, named_components
        super().__init__(embedding_variable, slot_num, compute_dtype, name)
        self.max_nnz = max_nnz
        self.max_feature_num = max_feature_num
        self.combiner = combiner
        if tf.is_symbolic_tensor(embedding_variable.emb_handle):  # else at the first lookup
            agreed = current_initialization(type(self).__name__).tables
            agreed.append(f"lookups in {embedding_variable.m_var_name}: combiner {combiner}")
