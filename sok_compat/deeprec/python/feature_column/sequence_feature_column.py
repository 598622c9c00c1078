# SPDX-License-Identifier: Apache-2.0
"""What DeepRec adds to `tensorflow.python.feature_column.sequence_feature_column`."""

import tensorflow as tf

from sok_compat.deeprec.columns.feature_columns import categorical_column_with_embedding
from sok_compat.deeprec.namespace.additions import all_else_of
from sok_compat.runtime.tf_versions import feature_columns as stock

__getattr__ = all_else_of(__name__)


def sequence_categorical_column_with_embedding(
    key, dtype=tf.string, partition_num=None, ev_option=None
):
    """A sequence of ids, whose embeddings an embedding variable has. API of DeepRec.

    For an embedding_column in tf.contrib.feature_column.sequence_input_layer. Arguments and errors
    are those of tf.feature_column.categorical_column_with_embedding.
    """
    return stock.SequenceCategoricalColumn(
        categorical_column_with_embedding(key, dtype, partition_num, ev_option)
    )
