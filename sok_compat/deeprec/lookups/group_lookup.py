# SPDX-License-Identifier: Apache-2.0
"""`nn.group_embedding_lookup_sparse` and `nn.group_embedding_lookup`: one lookup of many tables."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Union

import tensorflow as tf

from sok_compat.deeprec.lookups.ordinary_lookup import (
    ordinary_rows,
    pool_ordinary,
    rows_of_sequence,
)
from sok_compat.deeprec.variables.composed_variables import MultiHashVariable
from sok_compat.deeprec.variables.embedding_variable import (
    EmbeddingVariable,
    PartitionedEmbeddingVariable,
)
from sok_compat.lookup.bags_of_keys import BagsOfKeys, SplitKeys, checked_weights, split_bags
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.keys import in_shape_of, integer_keys
from sok_compat.lookup.new_keys import WITH_GRADIENT
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.runtime.tf_versions import PartitionedVariable, Variable

COMBINERS = ("mean", "sum")
_OF_PARTS = (PartitionedVariable, PartitionedEmbeddingVariable)

_Bags = Union[tf.SparseTensor, tf.RaggedTensor]


def group_embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    combiners: Sequence[str] | str | None,
    sp_weights: Any = None,
    partition_strategy: Any = "mod",
    is_sequence: bool = False,
    params_num_per_group: int = sys.maxsize,
    name: str | None = None,
) -> list[tf.Tensor]:
    """Looks up bags of ids in many variables; the number of ops does not grow with the variables.

    API of DeepRec. As tf.nn.safe_embedding_lookup_sparse for each variable, but keeps all ids and
    weights: a negative id is a key of an embedding variable. 'mean' divides by the sum of weights,
    as in TensorFlow. Weights of pooled rows of embedding variables get no gradient.

    Args:
      params: list or tuple of EmbeddingVariables and ordinary variables, of any dims, with or
        without repetition; or a single one.
      sp_ids: for each variable, integers: a tf.SparseTensor [batch, columns] with sorted rows, or
        a tf.RaggedTensor [batch, (ids)].
      combiners: for each variable, 'mean' or 'sum'; None: all 'mean'.
      sp_weights: None, or for each variable None (all ones) or floats at the positions of sp_ids: a
        tf.SparseTensor, or for ragged ids also a tf.RaggedTensor. A string is taken as the
        partition_strategy: older scripts pass that fourth, sp_weights fifth and name sixth.
      partition_strategy: ignored.
      is_sequence: True: does not pool rows.
      params_num_per_group: ignored; it changes no result.
      name: name of the ops; None: 'group_embedding_lookup'.

    Returns:
      A list of float32 tensors [batch, dim], with a static dim; empty bags give zeros. With
      is_sequence, tensors [batch, columns, dim], with zeros where there is no id.

    Raises:
      ValueError: params is None; lists of different lengths; a wrong combiner or kind of ids;
        is_sequence is not a bool.
      TypeError: a variable of several parts, or not a variable; a wrong kind of weights.
      tf.errors.InvalidArgumentError: when run: unsorted rows; weights and ids at different
        positions.
    """
    if isinstance(sp_weights, str):  # the older order
        sp_weights, partition_strategy = partition_strategy, sp_weights
        sp_weights = None if isinstance(sp_weights, str) else sp_weights
        if isinstance(is_sequence, str):
            is_sequence, name = False, is_sequence
    del partition_strategy, params_num_per_group
    _check_is_bool("is_sequence", is_sequence)
    params, sp_ids = _checked_params(params), _as_list(sp_ids)
    combiners = _checked_combiners(combiners, len(params))
    weights = [None] * len(params) if sp_weights is None else _as_list(sp_weights)
    _check_lengths(combiners, {"sp_ids": sp_ids, "params": params, "sp_weights": weights})
    with tf.name_scope(name or "group_embedding_lookup"):
        if is_sequence:
            return _sequences(params, _bags_of_keys(params, sp_ids, weights, to_sparse=True))
        return pooled_rows(params, split_ids(params, sp_ids, weights), combiners)


def group_embedding_lookup(
    params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None
) -> list[tf.Tensor]:
    """Looks up ids in many variables; the number of ops does not grow with the variables.

    API of DeepRec, which supports only the strategy 'localized' and one-dimensional ids.

    Args:
      params: as for group_embedding_lookup_sparse.
      ids: for each variable, a tensor of integers, of any shape.
      partition_strategy: ignored.
      name: name of the ops; None: 'group_embedding_lookup'.

    Returns:
      A list of float32 tensors [*shape of the ids, dim].

    Raises:
      ValueError: params is None; lists of different lengths.
      TypeError: as group_embedding_lookup_sparse; ids are not integers.
    """
    del partition_strategy
    params, ids = _checked_params(params), _as_list(ids)
    if len(params) != len(ids):
        raise ValueError(
            "group_embedding_lookup needs one ids tensor for each of params, got "
            f"{len(ids)} for {len(params)}"
        )
    with tf.name_scope(name or "group_embedding_lookup"):
        ids = [_integers(i, param, values) for i, (param, values) in enumerate(zip(params, ids))]
        rows = _rows(params, [tf.reshape(values, [-1]) for values in ids])
        return [
            in_shape_of(values, found, dim)
            for found, values, dim in zip(rows, ids, map(_dim_of, params))
        ]


def split_ids(params: Sequence[Any], sp_ids: Any, weights: Any) -> list[SplitKeys]:
    """The keys of bags, checked; arguments are lists, as of group_embedding_lookup_sparse."""
    bags = _bags_of_keys(params, sp_ids, weights, to_sparse=False)
    splits = split_bags(bags)
    for keys, one in zip(splits, bags):
        batch_size = tf.compat.dimension_value(one.bags.shape[0])
        keys.row_splits.set_shape([None if batch_size is None else batch_size + 1])
    return splits


def pooled_rows(
    params: Sequence[Any], splits: Sequence[SplitKeys], combiners: Sequence[str]
) -> list[tf.Tensor]:
    """The pooled rows of each bag, float32 [batch, dim], with a static dim, for each variable.

    The number of ops does not grow with the variables. A combiner is 'mean' or 'sum'.
    """
    of_tables = [i for i, param in enumerate(params) if isinstance(param, EmbeddingVariable)]
    others = [i for i in range(len(params)) if i not in of_tables]
    lookups = [
        Lookup(params[i], splits[i].keys, splits[i].row_splits, combiners[i], splits[i].weights)
        for i in of_tables
    ]
    outputs = dict(zip(of_tables, lookup_group(lookups, WITH_GRADIENT)))
    of_others = pool_ordinary(
        [params[i] for i in others], [splits[i] for i in others], [combiners[i] for i in others]
    )
    outputs |= zip(others, of_others)
    for i, (param, keys) in enumerate(zip(params, splits)):
        num_splits = tf.compat.dimension_value(keys.row_splits.shape[0])
        outputs[i].set_shape([None if num_splits is None else num_splits - 1, _dim_of(param)])
    return [outputs[i] for i in range(len(params))]


def _bags_of_keys(params, sp_ids, weights, to_sparse):
    given = zip(params, sp_ids, weights)
    return [_checked_bags(i, *one, to_sparse=to_sparse) for i, one in enumerate(given)]


def _sequences(params, bags):
    weights = checked_weights(bags)
    with tf.control_dependencies([values for values in weights if values is not None]):
        rows = _rows(params, [one.bags.values for one in bags])
    return [
        rows_of_sequence(found, one.bags, values, dim)
        for found, one, values, dim in zip(rows, bags, weights, map(_dim_of, params))
    ]


def _rows(params: Sequence[Any], keys: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """For each variable, the rows [n, dim] of its keys [n]."""
    tables = [i for i, param in enumerate(params) if isinstance(param, EmbeddingVariable)]
    rows = lookup_group([Lookup(params[i], keys[i]) for i in tables], WITH_GRADIENT)
    found = dict(zip(tables, rows))
    return [
        found[i] if i in found else ordinary_rows(param, keys[i]) for i, param in enumerate(params)
    ]


def _dim_of(param: Any) -> int:
    return tf.compat.dimension_value(param.shape[-1])


def _checked_params(params: Any) -> list[Any]:
    if params is None:
        raise ValueError("params must be specified")
    return [_checked_param(param) for param in _as_list(params)]


def whole_of(variable: Any) -> Any:
    """The variable, or its only part; None if it has several, or is composed of others."""
    if isinstance(variable, _OF_PARTS):
        parts = list(variable)
        return parts[0] if len(parts) == 1 else None
    return None if isinstance(variable, MultiHashVariable) else variable


def _checked_param(param: Any) -> Any:
    whole = whole_of(param)
    if whole is None and isinstance(param, _OF_PARTS):
        raise TypeError(
            f"group lookups do not support partitioned variables, got {param.name}, which has "
            f"{len(list(param))} parts: make it without a partitioner"
        )
    is_tensor = isinstance(whole, tf.Tensor) and whole.shape.rank == 2
    if not isinstance(whole, Variable) and not is_tensor:
        raise TypeError(
            f"params must be embedding variables or variables, got {type(param).__name__}"
        )
    return whole


def _as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _check_is_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def _check_lengths(combiners: Sequence[str], others: Mapping[str, Sequence[Any]]) -> None:
    for name, values in others.items():
        if len(values) != len(combiners):
            raise ValueError(
                f"group_embedding_lookup_sparse needs as many {name} as combiners, got "
                f"{len(values)} and {len(combiners)}"
            )


def _checked_combiners(combiners: Sequence[str] | str | None, number: int) -> list[str]:
    if combiners is None:
        return ["mean"] * number
    combiners = _as_list(combiners)
    for combiner in combiners:
        if combiner not in COMBINERS:
            raise ValueError(f"combiners must be 'mean' or 'sum', got {combiner!r}")
    return combiners


def _checked_bags(number: int, param: Any, ids: Any, weights: Any, to_sparse: bool) -> BagsOfKeys:
    """BagsOfKeys with int64 keys and float32 weights, both sparse or both ragged."""
    name = f"sp_ids[{number}]"
    if isinstance(ids, tf.compat.v1.SparseTensorValue):
        ids = tf.SparseTensor.from_value(ids)
    if not isinstance(ids, (tf.SparseTensor, tf.RaggedTensor)):
        raise ValueError(f"{name} must be SparseTensor or RaggedTensor, got {ids!r}")
    if ids.shape.rank not in (None, 2) or getattr(ids, "ragged_rank", 1) != 1:
        raise ValueError(f"{name} must have two dimensions, [batch, ids], got {ids.shape}")
    if isinstance(weights, tf.compat.v1.SparseTensorValue):
        weights = tf.SparseTensor.from_value(weights)
    if weights is not None and not isinstance(weights, (tf.SparseTensor, tf.RaggedTensor)):
        raise TypeError(
            f"sp_weights[{number}] must be None, SparseTensor or RaggedTensor, got {weights!r}"
        )
    if isinstance(weights, tf.RaggedTensor) and isinstance(ids, tf.SparseTensor):
        raise TypeError(f"sp_weights[{number}] must be a SparseTensor like {name}, got {weights!r}")
    if weights is not None and not weights.dtype.is_floating:
        raise TypeError(f"sp_weights[{number}] must be floats, got {weights.dtype.name}")
    if isinstance(ids, tf.RaggedTensor) and (to_sparse or isinstance(weights, tf.SparseTensor)):
        ids = ids.to_sparse()
        weights = weights.to_sparse() if isinstance(weights, tf.RaggedTensor) else weights
    if weights is not None and not weights.shape.is_compatible_with(ids.shape):
        raise ValueError(
            f"sp_weights[{number}] must have the shape of {name}, {ids.shape}, got {weights.shape}"
        )
    keys = _with_values(ids, _integers(number, param, ids.values))
    if weights is not None:
        weights = _with_values(weights, tf.cast(weights.values, tf.float32))
    return BagsOfKeys(keys, name, weights=weights)


def _with_values(bags: _Bags, values: tf.Tensor) -> _Bags:
    bags = bags.with_values(values)
    is_ragged = isinstance(bags, tf.RaggedTensor)
    return bags.with_row_splits_dtype(tf.int64) if is_ragged else bags


def _integers(number: int, param: Any, ids: Any) -> tf.Tensor:
    if isinstance(param, EmbeddingVariable):
        return param.checked_ids(ids)
    return integer_keys(ids, f"ids[{number}]", "tf.nn.group_embedding_lookup_sparse")
