# SPDX-License-Identifier: Apache-2.0
"""The version, under SparseOperationKit's module path."""

from sok_compat.runtime.version import __version__

__all__ = ["__version__"]
