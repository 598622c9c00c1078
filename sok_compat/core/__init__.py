# SPDX-License-Identifier: Apache-2.0
"""Init, scopes, the table variable and handles, under SparseOperationKit's module paths."""

from sok_compat.core._version import __version__
from sok_compat.core.context_scope import OptimizerScope
from sok_compat.core.embedding_layer_handle import (
    DenseEmbeddingLayerHandle,
    SparseEmbeddingLayerHandle,
)
from sok_compat.core.graph_keys import GraphKeys
from sok_compat.core.initialize import Init
from sok_compat.core.inplace_initializer import InPlaceInitializer
from sok_compat.variables.embedding_variable import EmbeddingVariable

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
