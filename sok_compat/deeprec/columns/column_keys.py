# SPDX-License-Identifier: Apache-2.0
"""Keys of columns whose features are dense tensors, by one op for all of them.

TensorFlow makes a SparseTensor of each such feature, and then hashes its values: eight ops a
column.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import tensorflow as tf

from sok_compat.deeprec.columns.embedding_columns import CategoricalColumnWithEmbedding
from sok_compat.lookup.bags_of_keys import SplitKeys
from sok_compat.lookup.dense_tables import tables_are_dense
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions.columns import feature_columns as stock

_DTYPES = (tf.string, tf.int32, tf.int64)


@dataclasses.dataclass(frozen=True, eq=False)
class DenseFeature:
    """A feature of a column, and how its values become keys.

    values: [batch] or [batch, values]; '' and -1 are no value.
    num_buckets: values are hashed to so many keys; 0: values are keys, those below 0 none.
    mask: int32 [number of values], or [batch], 0 or 1; None if all values become keys.
    taken: the entry of the mask of those that do. With 1, values below 0 do not.
    """

    values: tf.Tensor
    num_buckets: int
    mask: tf.Tensor | None = None
    taken: int = -1

    @classmethod
    def of(
        cls,
        source: stock.CategoricalColumn,
        features: Mapping[str, tf.Tensor | tf.SparseTensor],
        keeps_all: bool = False,
    ) -> DenseFeature | None:
        """The feature of a categorical column; None if TensorFlow has to transform it. A lookup
        that `keeps_all` takes keys below 0."""
        if isinstance(source, CategoricalColumnWithEmbedding):
            num_buckets = tf.int64.max if source.dtype == tf.string else 0
        elif type(source) is stock.HashedCategoricalColumn:
            num_buckets = source.hash_bucket_size
        else:
            return None
        values = features.get(source.key)
        if not isinstance(values, tf.Tensor) or values.shape.rank not in (1, 2):
            return None
        is_text = values.dtype == tf.string
        if values.dtype not in _DTYPES or is_text != (source.dtype == tf.string):
            return None
        is_wide = values.dtype.size > source.dtype.size  # ids for an int32 variable are checked
        if num_buckets == 0 and (keeps_all or is_wide):
            return None
        return None if tables_are_dense() else cls(values, num_buckets)


def split_features(features: Sequence[DenseFeature]) -> list[SplitKeys]:
    """The keys int64 and row splits of features, in their order.

    When run, raises tf.errors.InvalidArgumentError if a feature has more than 2^31 - 1 values; if a
    mask has another size, or values other than 0 and 1.
    """
    if not features:
        return []
    with tf.device("CPU"):
        none = tf.constant([], tf.int32)
        keys, splits = ops.sok_column_keys(
            features=[feature.values for feature in features],
            masks=[none if feature.mask is None else feature.mask for feature in features],
            num_buckets=[feature.num_buckets for feature in features],
            taken=[feature.taken for feature in features],
        )
    for feature, own in zip(features, splits):
        batch_size = tf.compat.dimension_value(feature.values.shape[0])
        own.set_shape([None if batch_size is None else batch_size + 1])
    return [SplitKeys(*each) for each in zip(keys, splits)]
