# SPDX-License-Identifier: Apache-2.0
"""`feature_column.linear_model`, also over columns of embedding variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.deeprec.columns.column_keys import DenseFeature, split_features
from sok_compat.deeprec.columns.embedding_columns import (
    collections_with,
    is_of_embedding_variable,
    make_weights,
    weights_at,
)
from sok_compat.deeprec.columns.stock_functions import ignore_fusion, of_tensorflow
from sok_compat.deeprec.lookups.group_lookup import COMBINERS, pooled_rows, whole_of
from sok_compat.deeprec.lookups.stock_lookups import safe_embedding_lookup_sparse
from sok_compat.runtime.tf_versions.columns import feature_columns as stock
from sok_compat.runtime.tf_versions.columns import scope_name, sparse_tensors

tf1 = tf.compat.v1

_BIAS = "bias_weights"  # the names of variables are TensorFlow's
_WEIGHTS = "weights"


@of_tensorflow
def linear_model(
    features: Mapping[str, tf.Tensor | tf.SparseTensor],
    feature_columns: Any,
    units: int = 1,
    sparse_combiner: str = "sum",
    weight_collections: Sequence[str] | None = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, list[tf.Variable]] | None = None,
    do_fusion: bool = False,
) -> tf.Tensor:
    """As tf.compat.v1.feature_column.linear_model. API of DeepRec.

    A column of categorical_column_with_embedding, alone or weighted, has an embedding variable
    <scope>/<column>/weights, whose rows have the size `units` and start with zeros.
    Other arguments are as in TensorFlow.

    Args:
      feature_columns: as in TensorFlow; also columns of embedding variables.
      do_fusion: ignored; it changes no result.

    Returns:
      float32 [batch, units].

    Raises:
      ValueError: as in TensorFlow.
    """
    ignore_fusion(do_fusion)
    settings = (units, sparse_combiner, weight_collections, trainable)
    columns = stock.normalize_feature_columns(feature_columns)
    ours = [
        column
        for column in columns
        if _is_of_embedding_variable(column) or _feature_of(column, features, sparse_combiner)
    ]
    if not ours:
        return tf1.feature_column.linear_model(features, columns, *settings, cols_to_vars)
    found: dict[Any, Any] = {}
    others = [column for column in columns if column not in ours]
    if others:
        rest = tf1.feature_column.linear_model(features, others, *settings, found)
    else:
        rest = _bias(units, weight_collections, trainable, found)
    columns_by_scope = _by_scope(ours)
    with tf1.variable_scope(_scope_of(found["bias"][0])):
        sums = _weighted_sums(features, columns_by_scope, *settings, found)
        if cols_to_vars is not None:
            cols_to_vars.update(found)
        return tf.add_n([*sums, rest + tf.zeros_like(sums[0])], name="weighted_sum")


def _is_of_embedding_variable(column):
    return isinstance(column, stock.CategoricalColumn) and is_of_embedding_variable(column)


def _feature_of(column, features, combiner):
    """The DenseFeature of a column that is looked up with others; else None."""
    return DenseFeature.of(column, features) if combiner in COMBINERS else None


def _bias(units, weight_collections, trainable, found):
    with tf1.variable_scope(None, "linear_model") as scope:
        bias = tf1.get_variable(
            _BIAS,
            [units],
            tf.float32,
            tf1.zeros_initializer(),
            trainable=trainable,
            collections=collections_with(weight_collections),
        )
        found["bias"] = _variables(f"{scope.name}/{_BIAS}")
    return tf.convert_to_tensor(bias)


def _scope_of(bias):
    """The scope of the model's variables, below the current one."""
    scope = bias.op.name.rpartition(f"/{_BIAS}")[0]
    current = tf1.get_variable_scope().name
    return scope[len(current) + 1 :] if current else scope


def _by_scope(columns):
    """{scope below the model's: column}; as in TensorFlow, no other column here had that name."""
    names = {}
    for column in sorted(columns, key=lambda column: column.name):
        with tf1.variable_scope(None, default_name=scope_name(column)) as scope:
            names[scope.name.rpartition("/")[2]] = column
    return names


def _weighted_sums(features, columns, units, combiner, weight_collections, trainable, found):
    """[batch, units] of each column; adds its variables to `found`."""
    builder = stock.LazyBuilder(features)
    collections = collections_with(weight_collections)
    sums, grouped = [], []
    for name, column in columns.items():
        feature = _feature_of(column, features, combiner)
        with tf1.variable_scope(name) as scope:
            initializer = tf1.zeros_initializer()
            variable = make_weights(column, _WEIGHTS, units, initializer, trainable, collections)
            whole = whole_of(variable)
            if feature is not None and whole is not None:
                grouped.append((whole, feature))
            else:
                ids, weights = sparse_tensors(column, builder, collections, trainable)
                ids = _flat(ids)
                weights = weights_at(ids, weights)
                sums.append(safe_embedding_lookup_sparse(variable, ids, weights, combiner=combiner))
        found[column] = _variables(f"{scope.name}/")
    if grouped:
        variables, dense = zip(*grouped)
        sums += pooled_rows(variables, split_features(dense), [combiner] * len(grouped))
    return sums


def _variables(prefix):
    return tf1.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES, scope=prefix)


def _flat(bags):
    """The ids of each sample in one row."""
    if bags.shape.rank == 2:
        return bags
    return tf.sparse.reshape(bags, [tf.shape(bags)[0], -1])
