# SPDX-License-Identifier: Apache-2.0
"""The embedding layers of SparseOperationKit 1.x."""

from sok_compat.sparse_operation_kit.embeddings.all2all_dense_embedding import All2AllDenseEmbedding
from sok_compat.sparse_operation_kit.embeddings.distributed_embedding import DistributedEmbedding
from sok_compat.sparse_operation_kit.embeddings.get_embedding_op import get_embedding
from sok_compat.sparse_operation_kit.embeddings.tf_distributed_embedding import (
    TFDistributedEmbedding,
)

__all__ = [
    "All2AllDenseEmbedding",
    "DistributedEmbedding",
    "TFDistributedEmbedding",
    "get_embedding",
]
