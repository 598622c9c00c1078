# SPDX-License-Identifier: Apache-2.0
"""Init, scopes, the table variable and handles, under SparseOperationKit's module paths."""

from sok_compat.sparse_operation_kit.core._version import __version__
from sok_compat.sparse_operation_kit.core.context_scope import OptimizerScope
from sok_compat.sparse_operation_kit.core.embedding_layer_handle import (
    DenseEmbeddingLayerHandle,
    SparseEmbeddingLayerHandle,
)
from sok_compat.sparse_operation_kit.core.embedding_variable import EmbeddingVariable
from sok_compat.sparse_operation_kit.core.graph_keys import GraphKeys
from sok_compat.sparse_operation_kit.core.initialize import Init
from sok_compat.sparse_operation_kit.core.inplace_initializer import InPlaceInitializer

__all__ = [
    "DenseEmbeddingLayerHandle",
    "EmbeddingVariable",
    "GraphKeys",
    "InPlaceInitializer",
    "Init",
    "OptimizerScope",
    "SparseEmbeddingLayerHandle",
    "__version__",
]
