# SPDX-License-Identifier: Apache-2.0
# Made by `python -m docs.generators.stubs` from tables of names.

from sok_compat.distributed_embeddings.integer_lookup import (
    IntegerLookup as IntegerLookup,
)
from sok_compat.distributed_embeddings.python.layers import (
    dist_model_parallel as dist_model_parallel,
)
from sok_compat.distributed_embeddings.python.layers.dist_model_parallel import (
    BroadcastGlobalVariablesCallback as BroadcastGlobalVariablesCallback,
    DistEmbeddingStrategy as DistEmbeddingStrategy,
    DistributedEmbedding as DistributedEmbedding,
    DistributedGradientTape as DistributedGradientTape,
    DistributedOptimizer as DistributedOptimizer,
    broadcast_variables as broadcast_variables,
)
from sok_compat.distributed_embeddings.python.layers.embedding import (
    Embedding as Embedding,
)
from sok_compat.distributed_embeddings.python.ops.embedding_lookup_ops import (
    embedding_lookup as embedding_lookup,
)
from sok_compat.distributed_embeddings.version import (
    __version__ as __version__,
)

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "DistEmbeddingStrategy",
    "DistributedEmbedding",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "Embedding",
    "IntegerLookup",
    "__version__",
    "broadcast_variables",
    "dist_model_parallel",
    "embedding_lookup",
]

def register_ops() -> None: ...
