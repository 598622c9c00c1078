# SPDX-License-Identifier: Apache-2.0
"""`feature_column.input_layer`, which looks up all embedding columns by a few ops."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.deeprec.columns.adaptive_columns import (
    AdaptiveColumnLookup,
    AdaptiveEmbeddingColumn,
    look_up_adaptive,
    with_masks,
)
from sok_compat.deeprec.columns.column_keys import DenseFeature, split_features
from sok_compat.deeprec.columns.embedding_columns import (
    WEIGHTS,
    ColumnLookup,
    collections_with,
    is_weighted,
    may_be_grouped,
    name_of_weights,
)
from sok_compat.deeprec.columns.stock_functions import of_tensorflow
from sok_compat.deeprec.lookups.group_lookup import pooled_rows, split_ids, whole_of
from sok_compat.lookup.dense_tables import tables_are_dense
from sok_compat.runtime.tf_versions.columns import (
    dense_tensor,
    scope_name,
    sparse_tensors,
    width_of,
)
from sok_compat.runtime.tf_versions.columns import feature_columns as stock

tf1 = tf.compat.v1

_OF_LAYER = "embedding_columns"  # the group of columns that the script puts into none
_ADAPTIVE = "adaptive embedding columns"


@of_tensorflow
def input_layer(
    features: Mapping[str, tf.Tensor | tf.SparseTensor],
    feature_columns: Any,
    weight_collections: Sequence[str] | None = None,
    trainable: bool = True,
    cols_to_vars: dict[stock.DenseColumn, list[tf.Variable]] | None = None,
    cols_to_output_tensors: dict[stock.DenseColumn, tf.Tensor] | None = None,
    adaptive_mask_tensors: Mapping[str, tf.Tensor] | None = None,
) -> tf.Tensor:
    """As tf.compat.v1.feature_column.input_layer. API of DeepRec.

    Looks up the embedding columns together, those of each group_embedding_column_scope by
    themselves, and adaptive columns by themselves: 26 columns take a few ops, where TensorFlow's
    take thirty each. Columns that a group lookup does not support are TensorFlow's: combiner
    'sqrtn', max_norm, ckpt_to_load_from, ids of more than two dimensions, partitioned variables,
    and weighted columns outside of a scope. A second call makes new variables, as in TensorFlow.
    Other arguments are as there; cols_to_vars and cols_to_output_tensors include grouped columns.

    Args:
      adaptive_mask_tensors: {key: mask} for each categorical_column_with_adaptive_embedding; others
        are ignored. A mask is int32 [number of ids], in the order of the SparseTensor, without
        those that mean no id. A mask of another number of ids is [batch], for all ids of a sample.

    Returns:
      float32 [batch, sum of dimensions], columns ordered by name.

    Raises:
      ValueError: as in TensorFlow; an adaptive column without a mask.
      tf.errors.InvalidArgumentError: when run: a mask has another size, or values other than 0 and
        1.
    """
    features = with_masks(features, adaptive_mask_tensors)
    feature_columns = stock.normalize_feature_columns(feature_columns)
    if not any(map(_group_of, feature_columns)):
        return tf1.feature_column.input_layer(
            features,
            feature_columns,
            weight_collections,
            trainable,
            cols_to_vars,
            cols_to_output_tensors,
        )
    check_are_dense("input_layer", feature_columns)
    columns = sorted(feature_columns, key=lambda column: column.name)
    with tf1.variable_scope(None, default_name="input_layer", values=list(features.values())):
        found = _find_variables(features, columns, weight_collections, trainable, cols_to_vars)
        outputs = flat_outputs(columns, found)
        if cols_to_output_tensors is not None:
            cols_to_output_tensors.update(zip(columns, outputs))
        stock.verify_static_batch_size_equality(outputs, columns)
        return tf.concat(outputs, 1)


def check_are_dense(layer: str, columns: Sequence[stock.DenseColumn]) -> None:
    """Raises ValueError for a categorical column."""
    for column in columns:
        if not isinstance(column, stock.DenseColumn):
            raise ValueError(
                f"{layer}: columns must be dense, got the categorical column {column.name!r}: "
                "put it into an embedding_column or indicator_column"
            )


def _find_variables(features, columns, weight_collections, trainable, cols_to_vars):
    """For each column its tensor; for grouped columns a ColumnLookup that is still to be run.

    Uses the variable scopes of TensorFlow's input_layer, in its order.
    """
    builder = stock.LazyBuilder(features)
    collections = collections_with(weight_collections)
    found = []
    for column in columns:
        with tf1.variable_scope(None, default_name=scope_name(column)) as scope:
            found.append(look_up_or_defer(column, features, builder, collections, trainable))
            if cols_to_vars is not None:
                of_scope = tf1.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES, scope=scope.name)
                cols_to_vars[column] = of_scope
    return found


def look_up_or_defer(
    column: stock.DenseColumn,
    features: Mapping[str, tf.Tensor | tf.SparseTensor],
    builder: stock.LazyBuilder,
    collections: list[str],
    trainable: bool,
) -> Any:
    """A column's tensor, or its lookup for flat_outputs; makes its variables."""
    if isinstance(column, AdaptiveEmbeddingColumn):
        return AdaptiveColumnLookup.of(column, features, builder, collections, trainable)
    is_grouped = _group_of(column) is not None
    if not is_grouped and name_of_weights(column) == WEIGHTS:
        return dense_tensor(column, builder, weight_collections=collections, trainable=trainable)
    keeps_all = not column.use_safe_embedding_lookup
    source = column.categorical_column
    feature = DenseFeature.of(source, features, keeps_all) if is_grouped else None
    lookup = ColumnLookup.of(column, feature, collections, trainable)
    if feature is None or not lookup.is_of_bags:
        bags = sparse_tensors(source, builder, collections, trainable)
        lookup = dataclasses.replace(lookup, bags=bags)
    return lookup if is_grouped and lookup.is_of_bags else lookup.alone()


def flat_outputs(columns: Sequence[stock.DenseColumn], found: list[Any]) -> list[tf.Tensor]:
    """[batch, dim] of each column; `found` is of look_up_or_defer."""
    return [
        tf.reshape(tensor, [tf.shape(tensor)[0], width_of(column)])
        for column, tensor in zip(columns, _look_up_groups(found))
    ]


def _look_up_groups(found: list[Any]) -> list[tf.Tensor]:
    """`found`, with the results of lookups; groups are ordered by their first column."""
    groups: dict[Any, list[tuple[int, Any]]] = {}
    for place, lookup in enumerate(found):
        if isinstance(lookup, (ColumnLookup, AdaptiveColumnLookup)):
            groups.setdefault(_group_of(lookup.column), []).append((place, lookup))
    tensors = list(found)
    for name, members in groups.items():
        places, lookups = zip(*members)
        with tf.name_scope(re.sub(r"[^\w.\\/>-]", "_", name, flags=re.ASCII)):
            look_up = look_up_adaptive if name == _ADAPTIVE else look_up_together
            pooled = look_up(lookups)
        for place, tensor in zip(places, pooled):
            tensors[place] = tensor
    return tensors


def look_up_together(lookups: Sequence[ColumnLookup]) -> list[tf.Tensor]:
    """The pooled rows [batch, dim] for each; all have bags, see ColumnLookup.is_of_bags."""
    return pooled_rows(
        [whole_of(lookup.variable) for lookup in lookups],
        _split_keys(lookups),
        [lookup.column.combiner for lookup in lookups],
    )


def _split_keys(lookups):
    """The SplitKeys of ColumnLookups."""
    dense = [lookup for lookup in lookups if isinstance(lookup.bags, DenseFeature)]
    sparse = [lookup for lookup in lookups if lookup not in dense]
    splits = dict(zip(dense, split_features([lookup.bags for lookup in dense])))
    if sparse:
        ids, weights = zip(*(lookup.taken() for lookup in sparse))
        variables = [whole_of(lookup.variable) for lookup in sparse]
        splits |= zip(sparse, split_ids(variables, ids, weights))
    return [splits[lookup] for lookup in lookups]


def _group_of(column: stock.DenseColumn) -> str | None:
    """The name of the column's group; None if it is looked up by itself."""
    if isinstance(column, AdaptiveEmbeddingColumn):
        return _ADAPTIVE
    if not may_be_grouped(column):
        return None
    scope = getattr(column, "group_name", None)
    if scope is None and not is_weighted(column) and not tables_are_dense():
        return _OF_LAYER
    return scope
