# SPDX-License-Identifier: Apache-2.0
"""Workers: SparseOperationKit 2."""
