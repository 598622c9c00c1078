# SPDX-License-Identifier: Apache-2.0
"""Init, scopes and the table variable, under SparseOperationKit's module paths."""

from sok_compat.core.context_scope import OptimizerScope
from sok_compat.core.graph_keys import GraphKeys
from sok_compat.core.initialize import Init
from sok_compat.variables.embedding_variable import EmbeddingVariable

__all__ = ["EmbeddingVariable", "GraphKeys", "Init", "OptimizerScope"]
