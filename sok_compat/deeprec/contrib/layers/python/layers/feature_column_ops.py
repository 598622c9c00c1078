# SPDX-License-Identifier: Apache-2.0
"""Layers over feature columns of `tf.contrib.layers`.

Scopes, names of variables and the order of columns are those of
tensorflow/contrib/layers/python/layers/feature_column_ops.py of DeepRec.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import tensorflow.compat.v1 as tf

from sok_compat.deeprec import contrib
from sok_compat.deeprec.columns.embedding_columns import (
    collections_with,
    make_weights,
    weights_at,
)
from sok_compat.deeprec.columns.input_layers import (
    check_are_dense,
    flat_outputs,
    look_up_or_defer,
)
from sok_compat.deeprec.columns.stock_functions import of_tensorflow
from sok_compat.deeprec.contrib.layers.python.layers.feature_column import (
    Column,
    combiner_of,
    create_feature_spec_for_parsing,
    sort_key_of,
)
from sok_compat.deeprec.contrib.layers.python.layers.layer_parts import refuse
from sok_compat.deeprec.lookups.stock_lookups import safe_embedding_lookup_sparse
from sok_compat.runtime.tf_versions import members
from sok_compat.runtime.tf_versions.columns import dense_tensor, sparse_tensors
from sok_compat.runtime.tf_versions.columns import feature_columns as stock

__all__ = [
    *("input_from_feature_columns", "parse_feature_columns_from_examples"),
    "weighted_sum_from_feature_columns",
]


@of_tensorflow
def input_from_feature_columns(
    columns_to_tensors: Mapping[str, tf.Tensor | tf.SparseTensor],
    feature_columns: Iterable[stock.DenseColumn],
    weight_collections: Iterable[str] | None = None,
    trainable: bool = True,
    scope: str | tf.VariableScope | None = None,
    cols_to_outs: dict[stock.DenseColumn, tf.Tensor] | None = None,
    blocknums: Any = None,
) -> tf.Tensor:
    """The inputs of a network: columns side by side, in TensorFlow 1's order.

    As tf.feature_column.input_layer; the variable of an embedding column is
    <scope>/<column>_embedding/weights.

    Args:
      columns_to_tensors: {feature: tensor or SparseTensor}
      feature_columns: columns of tf.contrib.layers or tf.feature_column.
      cols_to_outs: gets the tensor of each column.
      blocknums: None.

    Returns:
      float32 [batch, sum of dimensions].

    Raises:
      ValueError: a categorical column.
    """
    refuse("input_from_feature_columns", blocknums=blocknums)
    columns = _in_order(feature_columns)
    check_are_dense("input_from_feature_columns", columns)
    features = dict(columns_to_tensors)
    values = list(features.values())
    with tf.variable_scope(scope, "input_from_feature_columns", values):
        builder, collections = stock.LazyBuilder(features), collections_with(weight_collections)
        found = []
        for column in columns:
            with tf.variable_scope(None, column.name, values):
                found.append(look_up_or_defer(column, features, builder, collections, trainable))
        outputs = flat_outputs(columns, found)
        if cols_to_outs is not None:
            cols_to_outs.update(zip(columns, outputs))
        return tf.concat(outputs, 1)


@of_tensorflow
def weighted_sum_from_feature_columns(
    columns_to_tensors: Mapping[str, tf.Tensor | tf.SparseTensor],
    feature_columns: Iterable[Column],
    num_outputs: int,
    weight_collections: Iterable[str] | None = None,
    trainable: bool = True,
    scope: str | tf.VariableScope | None = None,
) -> tuple[tf.Tensor, dict[Any, list[Any]], tf.Variable]:
    """A linear model of columns, as tf.feature_column.linear_model.

    Variables: <scope>/<column>/weights, an embedding variable where the column is of one;
    <scope>/<column>/weight of a real_valued_column; <scope>/bias_weight.

    Args:
      columns_to_tensors, feature_columns: as input_from_feature_columns.

    Returns:
      (float32 [batch, num_outputs], {column: its variables}, the bias).

    Raises:
      ValueError: an embedding or one-hot column.
    """
    features = dict(columns_to_tensors)
    values = list(features.values())
    sums, variables = [], {}
    with tf.variable_scope(scope, "weighted_sum_from_feature_columns", values):
        builder, collections = stock.LazyBuilder(features), collections_with(weight_collections)
        for column in _in_order(feature_columns):
            with tf.variable_scope(None, column.name, values):
                add = _add_sparse if isinstance(column, stock.CategoricalColumn) else _add_dense
                variable, added = add(column, builder, num_outputs, trainable, collections)
            sums.append(tf.reshape(added, [-1, num_outputs]))
            variables[column] = members.parts_of(variable)
        zeros = tf.zeros_initializer()
        bias = tf.get_variable(
            "bias_weight", [num_outputs], tf.float32, zeros, None, trainable, collections
        )
        return tf.nn.bias_add(tf.add_n(sums), bias), variables, bias


def _add_sparse(column, builder, num_outputs, trainable, collections):
    zeros = tf.zeros_initializer()
    variable = make_weights(column, "weights", num_outputs, zeros, trainable, collections)
    ids, weights = sparse_tensors(column, builder, collections, trainable)
    weights = weights_at(ids, weights)
    return variable, safe_embedding_lookup_sparse(
        variable, ids, weights, combiner=combiner_of(column), name=f"{column.name}_weights"
    )


def _add_dense(column, builder, num_outputs, trainable, collections):
    if hasattr(column, "categorical_column"):
        raise ValueError(
            f"weighted_sum_from_feature_columns: {column.name!r} must be a sparse, bucketized or "
            "real-valued column: give the sparse column below it"
        )
    (inputs,) = flat_outputs([column], [dense_tensor(column, builder)])
    shape, zeros = [inputs.shape[1], num_outputs], tf.zeros_initializer()
    variable = tf.get_variable("weight", shape, tf.float32, zeros, None, trainable, collections)
    return variable, tf.matmul(inputs, variable)


def _in_order(feature_columns: Iterable[Column]) -> list[Any]:
    return sorted(dict.fromkeys(feature_columns), key=sort_key_of)


def parse_feature_columns_from_examples(
    serialized: Any,
    feature_columns: Iterable[Column],
    name: str | None = None,
    example_names: Any = None,
) -> dict[str, Any]:
    """{feature: tensor or SparseTensor} of tf.Examples, for the functions above."""
    spec = create_feature_spec_for_parsing(feature_columns)
    return tf.parse_example(serialized, spec, name=name, example_names=example_names)


def __getattr__(name: str) -> NoReturn:
    raise contrib.missing(f"layers.{name}")
