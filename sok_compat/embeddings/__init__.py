# SPDX-License-Identifier: Apache-2.0
"""The embedding layers of SparseOperationKit 1.x."""

from sok_compat.embeddings.all2all_dense_embedding import All2AllDenseEmbedding
from sok_compat.embeddings.distributed_embedding import DistributedEmbedding

__all__ = ["All2AllDenseEmbedding", "DistributedEmbedding"]
