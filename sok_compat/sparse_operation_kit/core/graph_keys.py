# SPDX-License-Identifier: Apache-2.0
"""Names of graph collections."""


class GraphKeys:
    """Names of collections. API of SparseOperationKit 1.x."""

    SparseOperationKitEmbeddingLayers = "SparseOperationKitEmbeddingLayers"  # handles of layers
    SparseOperationKitOptimizer = "SparseOperationKitOptimizer"  # plugin optimizers
