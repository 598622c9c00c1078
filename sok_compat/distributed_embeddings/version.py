# SPDX-License-Identifier: Apache-2.0
"""The version, under distributed-embeddings' module path."""

from sok_compat.runtime.version import __version__

__all__ = ["__version__"]
