# SPDX-License-Identifier: Apache-2.0
"""`categorical_column_with_adaptive_embedding`: ids in an ordinary or an embedding variable."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import tensorflow as tf

from sok_compat.deeprec.columns.column_keys import DenseFeature, split_features
from sok_compat.deeprec.columns.embedding_columns import (
    CategoricalColumnWithEmbedding,
    EmbeddingVariableColumn,
    source_of,
)
from sok_compat.deeprec.columns.stock_functions import of_tensorflow
from sok_compat.deeprec.lookups.adaptive_lookup import (
    AdaptiveBags,
    AdaptiveIds,
    pooled_adaptive,
)
from sok_compat.deeprec.lookups.group_lookup import COMBINERS, whole_of
from sok_compat.deeprec.variables.options import EmbeddingVariableOption
from sok_compat.lookup.dense_tables import tables_are_dense
from sok_compat.runtime.checked import checked
from sok_compat.runtime.checked_values import checked_count
from sok_compat.runtime.tf_versions.columns import feature_columns as stock

tf1 = tf.compat.v1

_HASH_WEIGHTS, _EV_WEIGHTS = "hash_weights", "ev_weights"  # the names of variables, as in DeepRec


class _Fields(NamedTuple):
    of_keys: CategoricalColumnWithEmbedding
    hash_bucket_size: int


class AdaptiveCategoricalColumn(stock.CategoricalColumn, _Fields):
    """A column of ids without a limit, each in an ordinary or in an embedding variable.

    of_keys: the column of the embedding variable.
    hash_bucket_size: rows of the ordinary variable.
    """

    @property
    def name(self) -> str:
        return self.of_keys.key

    @property
    def num_buckets(self) -> int:
        """Rows of the ordinary variable."""
        return self.hash_bucket_size

    @property
    def parse_example_spec(self) -> dict[str, tf.io.VarLenFeature]:
        return self.of_keys.parse_example_spec

    _parse_example_spec = parse_example_spec

    @property
    def _num_buckets(self):
        self._refuse()

    def _get_sparse_tensors(self, inputs, weight_collections=None, trainable=None):
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise NotImplementedError(
            f"the column {self.name!r} of categorical_column_with_adaptive_embedding works in an "
            "embedding_column only: elsewhere, use categorical_column_with_embedding or "
            "categorical_column_with_hash_bucket"
        )

    def _transform_feature(self, inputs):
        """The AdaptiveIds of a batch."""
        ids = stock.to_sparse_input_and_drop_ignore_values(inputs.get(self.name))
        keys = self.of_keys.keys_of(ids)
        values = ids.values if ids.dtype == tf.string else tf.strings.as_string(ids.values)
        buckets = tf.strings.to_hash_bucket_fast(values, self.hash_bucket_size)
        mask = _mask_of_ids(self.mask(inputs), keys)
        if ids.dtype == tf.string:
            return AdaptiveIds(keys, buckets, mask)
        is_taken = tf.logical_or(tf.equal(mask, 0), ids.values >= 0)
        kept = tf.sparse.retain(keys, is_taken)
        keys = tf.SparseTensor(kept.indices, kept.values, keys.dense_shape)  # of a static shape
        of_kept = [tf.boolean_mask(each, is_taken) for each in (buckets, mask)]
        return AdaptiveIds(keys, *of_kept)

    def mask(self, inputs: Any) -> tf.Tensor:
        """The mask among the features, int32 [number of ids], or [batch]."""
        try:
            mask = inputs.get(_mask_feature(self.name))
        except ValueError as error:  # a feature is missing
            raise ValueError(
                f"the column {self.name!r} of categorical_column_with_adaptive_embedding needs a "
                "mask: call tf.feature_column.input_layer(..., adaptive_mask_tensors="
                f"{{{self.name!r}: mask}}), with an int32 mask [number of ids], 0 for the "
                "ordinary variable and 1 for the embedding variable"
            ) from error
        return tf.cast(tf.reshape(mask, [-1]), tf.int32)


class AdaptiveEmbeddingColumn(EmbeddingVariableColumn):
    """An embedding column over an AdaptiveCategoricalColumn."""

    def _get_dense_tensor(self, inputs, weight_collections=None, trainable=None):
        pair = self.variables(weight_collections, self.trainable and trainable)
        return self.pooled_alone(inputs.get(self.categorical_column), pair)

    def pooled_alone(self, ids: AdaptiveIds, pair: tuple[Any, Any]) -> tf.Tensor:
        """The pooled rows of (the ordinary variable, the embedding variable), with any settings."""
        return ids.pooled(*pair, self.combiner, self.max_norm, f"{self.name}_weights")

    @property
    def may_be_grouped(self) -> bool:
        """Whether lookups by bags support its settings."""
        return self.combiner in COMBINERS and self.max_norm is None

    def variables(self, collections: list[str] | None, trainable: bool) -> tuple[Any, Any]:
        """Makes or finds (the ordinary variable, the embedding variable) in the current scope."""
        source = self.categorical_column
        variable = source.of_keys.make_variable(
            _EV_WEIGHTS, self.dimension, self.initializer, trainable, collections
        )
        ordinary = tf1.get_variable(
            _HASH_WEIGHTS,
            [source.hash_bucket_size, self.dimension],
            tf.float32,
            self.initializer,
            trainable=trainable,
            collections=collections,
        )
        return ordinary, variable


@dataclasses.dataclass(frozen=True, eq=False)
class AdaptiveColumnLookup:
    """The lookup of an AdaptiveEmbeddingColumn by bags of ids.

    ids: AdaptiveIds, or the DenseFeatures of AdaptiveBags.
    """

    column: AdaptiveEmbeddingColumn
    ids: Any
    ordinary: Any
    variable: Any

    @classmethod
    def of(
        cls, column: Any, features: Any, inputs: Any, collections: list[str], trainable: bool
    ) -> AdaptiveColumnLookup | tf.Tensor:
        """Makes or finds the variables. Returns the pooled rows if they cannot be grouped."""
        pair = column.variables(collections, column.trainable and trainable)
        source = column.categorical_column
        is_whole = None not in map(whole_of, pair)
        is_grouped = is_whole and column.may_be_grouped and not tables_are_dense()
        ids = _dense_features(source, features, inputs) if is_grouped else None
        ids = inputs.get(source) if ids is None else ids
        if is_grouped and (isinstance(ids, tuple) or ids.keys.shape.rank == 2):
            return cls(column, ids, *map(whole_of, pair))
        return column.pooled_alone(ids, pair)

    @property
    def combiner(self) -> str:
        """The column's; 'sum', which takes fewer ops, where samples have at most one id."""
        is_single = isinstance(self.ids, tuple) and self.ids[0].values.shape[1:].num_elements() == 1
        return "sum" if is_single else self.column.combiner


def look_up_adaptive(lookups: Sequence[AdaptiveColumnLookup]) -> list[tf.Tensor]:
    """The pooled rows [batch, dim] for each."""
    dense = [lookup for lookup in lookups if isinstance(lookup.ids, tuple)]
    splits = iter(split_features([feature for lookup in dense for feature in lookup.ids]))
    bags = {own: AdaptiveBags(next(splits), next(splits).keys, next(splits)) for own in dense}
    return pooled_adaptive(
        [lookup.variable for lookup in lookups],
        [lookup.ordinary for lookup in lookups],
        [bags[own] if own in bags else own.ids.in_bags(own.variable) for own in lookups],
        [lookup.combiner for lookup in lookups],
    )


def _dense_features(source, features, inputs):
    """The DenseFeatures of AdaptiveBags; None if TensorFlow has to transform the feature."""
    keys = DenseFeature.of(source.of_keys, features)
    if keys is None:
        return None
    mask = source.mask(inputs)
    buckets = dataclasses.replace(keys, num_buckets=source.hash_bucket_size, mask=mask, taken=1)
    return (
        dataclasses.replace(keys, mask=mask, taken=1),
        buckets,
        dataclasses.replace(buckets, taken=0),
    )


@of_tensorflow
def categorical_column_with_adaptive_embedding(
    key: str,
    hash_bucket_size: int,
    dtype: tf.DType | str = tf.string,
    partition_num: int | None = None,
    ev_option: EmbeddingVariableOption | None = None,
) -> AdaptiveCategoricalColumn:
    """A categorical column of any ids, each in an ordinary or in an embedding variable.

    API of DeepRec. For `embedding_column`, in an `input_layer` with adaptive_mask_tensors. An id
    whose mask is 0 is as in `categorical_column_with_hash_bucket`; one whose mask is 1 is as in
    `categorical_column_with_embedding`, except that a key without a row reads, and starts with, the
    row of its bucket in the ordinary variable.

    Args:
      key: key of the feature: a SparseTensor, or a tensor in which '' or -1 mean no id.
      hash_bucket_size: rows of the ordinary variable, an int >= 1.
      dtype: tf.string, tf.int64 or tf.int32, as in categorical_column_with_embedding.
      partition_num: number of parts of the embedding variable, an int >= 1; None: from the variable
        scope, or one.
      ev_option: an EmbeddingVariableOption, whose initializer is not used; None: the defaults.

    Raises:
      ValueError: an argument out of range.
    """
    of_keys = CategoricalColumnWithEmbedding.checked(key, dtype, partition_num, ev_option)
    what = f"the column {key!r}: hash_bucket_size"
    return AdaptiveCategoricalColumn(of_keys, checked_count(what, hash_bucket_size, 1))


def is_adaptive(categorical_column: stock.CategoricalColumn) -> bool:
    """Whether a column's ids are those of an AdaptiveCategoricalColumn."""
    return isinstance(source_of(categorical_column), AdaptiveCategoricalColumn)


def check_may_be_embedded(categorical_column: AdaptiveCategoricalColumn, group: str | None) -> None:
    """Checks the place of an adaptive column.

    Raises:
      ValueError: it is weighted.
      TypeError: it is in a group scope.
    """
    if not isinstance(categorical_column, AdaptiveCategoricalColumn):
        raise ValueError(
            "a categorical_column_with_adaptive_embedding takes no weights, got "
            f"{categorical_column.name!r}: weight a categorical_column_with_embedding"
        )
    if group is not None:
        raise TypeError(
            f"the column {categorical_column.name!r} of categorical_column_with_adaptive_embedding "
            f"cannot be in the group {group!r}: make its embedding_column outside of "
            "group_embedding_column_scope"
        )


def with_masks(
    features: Mapping[str, tf.Tensor | tf.SparseTensor],
    adaptive_mask_tensors: Mapping[str, tf.Tensor] | None,
) -> Mapping[str, Any]:
    """Features with the masks of adaptive columns among them."""
    if not adaptive_mask_tensors:
        return features
    masks = {
        _mask_feature(key): tf.convert_to_tensor(mask)
        for key, mask in adaptive_mask_tensors.items()
    }
    return {**features, **masks}


def _mask_feature(key: str) -> str:
    return f"adaptive_mask_tensors[{key!r}]"


def _mask_of_ids(mask: tf.Tensor, ids: tf.SparseTensor) -> tf.Tensor:
    """int32 [number of ids], of a mask with an entry for each id, or for each sample."""
    size, num_ids = tf.size(mask, tf.int64), tf.size(ids.values, tf.int64)
    is_of_ids = tf.equal(size, num_ids)
    is_of_samples = tf.equal(size, ids.dense_shape[0])
    mask = checked(
        mask,
        tf.logical_or(is_of_ids, is_of_samples),
        "an adaptive mask must have one entry for each id, or for each sample; entries, ids, "
        "samples:",
        *(size, num_ids, ids.dense_shape[0]),
    )
    return tf.gather(mask, tf.where(is_of_ids, tf.range(num_ids), ids.indices[:, 0]))
