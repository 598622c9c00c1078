# SPDX-License-Identifier: Apache-2.0
"""Layers and helpers for models with tables spread over the ranks."""

from sok_compat.distributed_embeddings.distributed_embedding import DistributedEmbedding
from sok_compat.distributed_embeddings.explanation import explain
from sok_compat.distributed_embeddings.ids_of_owners import (
    _dp_to_mp_input,
    _dp_to_mp_input_dense,
    _dp_to_mp_input_ragged,
)
from sok_compat.distributed_embeddings.planning.strategy import DistEmbeddingStrategy
from sok_compat.distributed_embeddings.planning.workload import Workload
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
    "Workload",
    "_dp_to_mp_input",
    "_dp_to_mp_input_dense",
    "_dp_to_mp_input_ragged",
    "broadcast_variables",
    "explain",
]
