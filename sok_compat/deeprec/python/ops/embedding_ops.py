# SPDX-License-Identifier: Apache-2.0
"""DeepRec's lookups in `tensorflow.python.ops.embedding_ops`; other names are TensorFlow's."""

from sok_compat.deeprec.lookups.adaptive_lookup import adaptive_embedding_lookup_sparse
from sok_compat.deeprec.lookups.fused_lookup import fused_safe_embedding_lookup_sparse
from sok_compat.deeprec.lookups.stock_lookups import (
    embedding_lookup,
    embedding_lookup_sparse,
    safe_embedding_lookup_sparse,
)
from sok_compat.deeprec.namespace.additions import all_else_of

__all__ = [
    "adaptive_embedding_lookup_sparse",
    "embedding_lookup",
    "embedding_lookup_sparse",
    "fused_safe_embedding_lookup_sparse",
    "safe_embedding_lookup_sparse",
]

__getattr__ = all_else_of(__name__)
