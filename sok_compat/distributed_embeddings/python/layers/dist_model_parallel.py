# SPDX-License-Identifier: Apache-2.0
"""Layers and helpers for models of which each rank has some tables."""

from sok_compat.distributed_embeddings.distributed_embedding import DistributedEmbedding
from sok_compat.distributed_embeddings.explanation import explain
from sok_compat.distributed_embeddings.strategy import DistEmbeddingStrategy
from sok_compat.distributed_embeddings.training_helpers import (
    BroadcastGlobalVariablesCallback,
    DistributedGradientTape,
    DistributedOptimizer,
    broadcast_variables,
)
from sok_compat.distributed_embeddings.workload import Workload

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "DistEmbeddingStrategy",
    "DistributedEmbedding",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "Workload",
    "broadcast_variables",
    "explain",
]
