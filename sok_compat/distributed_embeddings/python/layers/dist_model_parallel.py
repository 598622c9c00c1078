# SPDX-License-Identifier: Apache-2.0
"""Layers and helpers for models of which each rank has some tables."""

from sok_compat.distributed_embeddings.distributed_embedding import DistributedEmbedding
from sok_compat.distributed_embeddings.strategy import DistEmbeddingStrategy
from sok_compat.distributed_embeddings.training_helpers import (
    BroadcastGlobalVariablesCallback,
    DistributedGradientTape,
    DistributedOptimizer,
    broadcast_variables,
)

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "DistEmbeddingStrategy",
    "DistributedEmbedding",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "broadcast_variables",
]
