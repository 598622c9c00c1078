# SPDX-License-Identifier: Apache-2.0
"""DeepRec's additions to `tensorflow.python.feature_column.sequence_feature_column`."""

from __future__ import annotations

import tensorflow as tf

from sok_compat.deeprec.columns.feature_columns import categorical_column_with_embedding
from sok_compat.deeprec.namespace.additions import all_else_of
from sok_compat.deeprec.variables.options import EmbeddingVariableOption
from sok_compat.runtime.tf_versions.columns import feature_columns as stock

__getattr__ = all_else_of(__name__)


def sequence_categorical_column_with_embedding(
    key: str,
    dtype: tf.DType | str = tf.string,
    partition_num: int | None = None,
    ev_option: EmbeddingVariableOption | None = None,
) -> stock.SequenceCategoricalColumn:
    """A column of id sequences, for an embedding_column over an embedding variable.

    API of DeepRec. For tf.contrib.feature_column.sequence_input_layer. Arguments and errors are
    those of tf.feature_column.categorical_column_with_embedding.
    """
    return stock.SequenceCategoricalColumn(
        categorical_column_with_embedding(key, dtype, partition_num, ev_option)
    )
