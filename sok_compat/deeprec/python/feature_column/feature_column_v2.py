# SPDX-License-Identifier: Apache-2.0
"""DeepRec's columns in `tensorflow.python.feature_column.feature_column_v2`."""

from sok_compat.deeprec.columns.adaptive_columns import categorical_column_with_adaptive_embedding
from sok_compat.deeprec.columns.feature_columns import (
    categorical_column_with_embedding,
    embedding_column,
    group_embedding_column_scope,
    shared_embedding_columns,
)
from sok_compat.deeprec.columns.multihash_columns import categorical_column_with_multihash
from sok_compat.deeprec.namespace.additions import all_else_of

__all__ = [
    "categorical_column_with_adaptive_embedding",
    "categorical_column_with_embedding",
    "categorical_column_with_multihash",
    "embedding_column",
    "group_embedding_column_scope",
    "shared_embedding_columns",
]

__getattr__ = all_else_of(__name__)
