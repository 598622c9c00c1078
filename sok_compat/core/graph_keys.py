# SPDX-License-Identifier: Apache-2.0
"""Names of graph collections."""


class GraphKeys:
    """Collections of SparseOperationKit 1.x."""

    SparseOperationKitOptimizer = "SparseOperationKitOptimizer"  # plugin optimizers
