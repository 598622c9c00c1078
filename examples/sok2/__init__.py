# SPDX-License-Identifier: Apache-2.0
"""A DLRM by lookup_sparse and OptimizerWrapper of SparseOperationKit 2."""
