# SPDX-License-Identifier: Apache-2.0
"""What variables of SparseOperationKit 2 are made of: modes, options and first values."""
