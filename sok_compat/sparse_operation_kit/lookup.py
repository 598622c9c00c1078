# SPDX-License-Identifier: Apache-2.0
"""`lookup_sparse`: bags of keys in many variables, by one request to other ranks."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Iterable, Sequence
from typing import Any, Union

import tensorflow as tf

from sok_compat.lookup.bags_of_keys import BagsOfKeys, SplitKeys, split_bags
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.keys import check_integers, in_shape_of
from sok_compat.lookup.new_keys import WITH_GRADIENT, EvictedKeys, Insert, KeyDraw, NewKeys
from sok_compat.lookup.ordinary import pooled_rows_of_group
from sok_compat.lookup.pooling import pool_rows
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.runtime.tf_versions import PartitionedVariable, Variable
from sok_compat.sparse_operation_kit.communication import check_initialized
from sok_compat.sparse_operation_kit.dynamic_variable import DynamicVariable
from sok_compat.sparse_operation_kit.variables.key_lookups import LooksUpKeys, may_insert
from sok_compat.tables.table import Table

_COMBINERS = {
    spelled: combiner
    for name, combiner in {"sum": "sum", "mean": "mean", "average": "mean"}.items()
    for spelled in (name, name.capitalize(), name.upper())
}

_Bags = Union[tf.SparseTensor, tf.RaggedTensor]


@dataclasses.dataclass(frozen=True, eq=False)
class _Bag:
    """One of the lookups of a call."""

    param: Any
    ids: _Bags
    weights: _Bags | None
    combiner: str


@tf.autograph.experimental.do_not_convert
def lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any = None,
    combiners: Any = None,
    use_low_frequency_filter: bool = False,
    *,
    hotness: Any = None,
) -> Any:
    """Looks up bags of keys in many variables, and pools the rows of each bag.

    API of SparseOperationKit 2. Unknown keys of a DynamicVariable get rows. All ranks call it
    together, with any batch sizes; it sends one request to other ranks, and one more where some of
    the variables are DeepRec's.

    Args:
      params: variables of `sok.Variable`, `sok.DynamicVariable`, DeepRec's embedding variables and
        ordinary variables [rows, dim], in any mixture and with or without repetition; or one.
      sp_ids: for each variable, integers: a tf.SparseTensor [batch, columns] with sorted rows, or a
        tf.RaggedTensor [batch, (keys)].
      sp_weights: None, or for each variable None (all ones) or floats of the form of its sp_ids, a
        tf.SparseTensor or a tf.RaggedTensor. They get no gradient. Earlier releases have combiners
        or hotness in this place: strings are taken as combiners, ints as hotness.
      combiners: for each variable, or one for all: 'sum', 'mean' or 'average' (the same), also
        capitalized or in capitals; None: 'mean'. With weights, 'mean' divides by their sum; where
        that is 0, the output is 0.
      use_low_frequency_filter: whether each unknown key is admitted with the probability
        filter_ratio of its variable, of var_type 'hybrid'. Ignored with weights.
      hotness: ignored.

    Returns:
      float32 [batch, dim] for each variable, with zeros for empty bags: a list if sp_ids is one,
      else a tensor. The gradient of a variable has a slice for each distinct key of a lookup,
      which is the sum over all ranks.

    Raises:
      RuntimeError: sok.init has not been called.
      TypeError: a parameter, ids or weights of a wrong kind or dtype.
      ValueError: lists of different lengths; a wrong combiner; a filter for var_type 'hbm'.
      tf.errors.InvalidArgumentError: when run: unsorted rows; weights and ids at different
        positions; a key that a variable of sok.Variable does not have.
    """
    if _are(str, sp_weights):
        sp_weights, combiners = None, sp_weights
    elif _are(numbers.Integral, sp_weights):
        sp_weights, hotness = None, sp_weights
    del hotness
    check_initialized("sok.lookup_sparse")
    bags = _checked_bags(params, sp_ids, sp_weights, combiners)
    if use_low_frequency_filter:
        _check_filter(bags)
    with tf.name_scope("lookup_sparse"):
        outputs = _pooled(bags, split_bags(_in_like_forms(bags)), use_low_frequency_filter)
    return outputs if isinstance(sp_ids, (list, tuple)) else outputs[0]


def lookup_sparse_impl(
    params: Any, sp_ids: Any, sp_weights: Any = None, combiners: Any = None, *options: Any
) -> list[tf.Tensor]:
    """As `lookup_sparse`, and always returns a list. API of SparseOperationKit 2.

    Args:
      params, sp_ids, sp_weights, combiners, *options: see `lookup_sparse`.
    """
    return lookup_sparse(_as_list(params), _as_list(sp_ids), sp_weights, combiners, *options)


def group_lookup(
    params: Any, indices: Any, dtype: tf.DType | str | None = None, name: str | None = None
) -> list[tf.Tensor]:
    """Looks up the rows of keys in many variables, without pooling. API of SparseOperationKit 2.

    All ranks call it together; it sends one request to other ranks.

    Args:
      params: variables, as of `lookup_sparse`; or one.
      indices: for each variable, integers of any shape.
      dtype: of the output; None: float32.
      name: of the ops.

    Returns:
      A list of [*indices.shape, dim], one for each variable.

    Raises:
      RuntimeError: sok.init has not been called.
      TypeError: indices are not integers.
      ValueError: another number of indices than of params.
    """
    check_initialized("sok.lookup.group_lookup")
    params, indices = _as_list(params), [tf.convert_to_tensor(each) for each in _as_list(indices)]
    if len(params) != len(indices):
        raise ValueError(
            f"group_lookup needs as many indices as params, got {len(indices)} for {len(params)}"
        )
    with tf.name_scope(name or "group_lookup"):
        of_tables = [i for i, param in enumerate(params) if isinstance(param, LooksUpKeys)]
        keys = {i: params[i].checked_keys(indices[i]) for i in of_tables}
        lookups = [Lookup(params[i], tf.reshape(keys[i], [-1])) for i in of_tables]
        rows = dict(zip(of_tables, lookup_group(lookups, may_insert())))
        outputs = [
            in_shape_of(keys[i], rows[i], param.dim)
            if i in rows
            else tf.nn.embedding_lookup(param, indices[i])
            for i, param in enumerate(params)
        ]
        return outputs if dtype is None else [tf.cast(each, dtype) for each in outputs]


def all2all_dense_embedding(param: Any, indices: Any) -> tf.Tensor:
    """Looks up the row of each key. API of SparseOperationKit 2.

    Args:
      param: a variable of `sok.Variable` or `sok.DynamicVariable`.
      indices: integers of any shape.

    Returns:
      float32 [*indices.shape, dim].

    Raises:
      TypeError: the variable is another, or indices are not integers.
    """
    if not isinstance(param, LooksUpKeys):
        raise TypeError(
            "sok.all2all_dense_embedding needs a variable of sok.Variable or sok.DynamicVariable, "
            f"got {type(param).__name__}"
        )
    return param.sparse_read(indices)


def sparse_read_and_evict(
    var: DynamicVariable, indices: Any, name: str | None = None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Looks up the row of each key, and tells which keys that evicts. API of SparseOperationKit 2.

    All ranks call it together.

    Args:
      var: a DynamicVariable of var_type 'hybrid'.
      indices: integers of any shape.
      name: name of the ops.

    Returns:
      (rows float32 [*indices.shape, dim], differentiable by the variable; the keys that this rank
      has evicted, int64 [n], the least recently used first; their rows [n, dim])

    Raises:
      TypeError: the variable is another, or indices are not integers.
    """
    if not isinstance(var, DynamicVariable) or var.backend_type != "hybrid":
        raise TypeError(
            "sok.sparse_read_and_evict needs a sok.DynamicVariable of var_type='hybrid', got "
            f"{getattr(var, 'name', var)!r}"
        )
    keys, evicted = var.checked_keys(indices), EvictedKeys()
    with tf.name_scope(name or "sparse_read_and_evict"):
        lookup = Lookup(var, tf.reshape(keys, [-1]), new_keys=NewKeys(evicted=evicted))
        (rows,) = lookup_group([lookup], insert=True)
        return in_shape_of(keys, rows, var.dim), evicted.keys, evicted.rows


def _are(kind: type, values: Any) -> bool:
    """Whether values are of a kind: one, or a list of at least one."""
    values = values if isinstance(values, (list, tuple)) else [values]
    return bool(values) and all(
        isinstance(each, kind) and not isinstance(each, bool) for each in values
    )


def _checked_bags(params: Any, sp_ids: Any, sp_weights: Any, combiners: Any) -> list[_Bag]:
    params, sp_ids = _as_list(params), _as_list(sp_ids)
    weights = [None] * len(params) if sp_weights is None else _as_list(sp_weights)
    combiners = "mean" if combiners is None else combiners
    if isinstance(combiners, str) or not isinstance(combiners, Iterable):
        combiners = [combiners] * len(params)
    lists = {"sp_ids": sp_ids, "sp_weights": weights, "combiners": list(combiners)}
    for name, values in lists.items():
        if len(values) != len(params):
            raise ValueError(
                f"lookup_sparse needs as many {name} as params, got {len(values)} for {len(params)}"
            )
    return [_checked_bag(i, *one) for i, one in enumerate(zip(params, *lists.values()))]


def _checked_bag(number: int, param: Any, ids: Any, weights: Any, combiner: Any) -> _Bag:
    if isinstance(param, PartitionedVariable) or not isinstance(param, Variable):
        raise TypeError(
            "params of lookup_sparse must be variables that are not partitioned, got "
            f"{type(param).__name__}"
        )
    if not isinstance(combiner, str) or combiner not in _COMBINERS:
        raise ValueError(f"combiners must be 'sum', 'mean' or 'average', got {combiner!r}")
    ids = _as_bags(f"sp_ids[{number}]", ids)
    check_integers(ids.dtype, f"sp_ids[{number}], keys of {param.name},")
    if weights is not None:
        weights = _as_bags(f"sp_weights[{number}]", weights)
        if not weights.dtype.is_floating:
            raise TypeError(f"sp_weights[{number}] must be floats, got {weights.dtype.name}")
        weights = _with_values(weights, tf.cast(weights.values, tf.float32))
    is_ours = isinstance(param, LooksUpKeys)
    keys = param.checked_keys(ids.values) if is_ours else tf.cast(ids.values, tf.int64)
    ids = _with_values(ids, keys)
    return _Bag(param, ids, weights, _COMBINERS[combiner])


def _as_bags(name: str, bags: Any) -> _Bags:
    if isinstance(bags, tf.compat.v1.SparseTensorValue):
        bags = tf.SparseTensor.from_value(bags)
    if not isinstance(bags, (tf.SparseTensor, tf.RaggedTensor)):
        raise TypeError(f"{name} must be SparseTensor or RaggedTensor, got {type(bags).__name__}")
    if bags.shape.rank not in (None, 2) or getattr(bags, "ragged_rank", 1) != 1:
        raise ValueError(f"{name} must have two dimensions, [batch, keys], got {bags.shape}")
    return bags


def _with_values(bags: _Bags, values: tf.Tensor) -> _Bags:
    bags = bags.with_values(values)
    is_ragged = isinstance(bags, tf.RaggedTensor)
    return bags.with_row_splits_dtype(tf.int64) if is_ragged else bags


def _check_filter(bags: Sequence[_Bag]) -> None:
    for bag in bags:
        if not isinstance(bag.param, DynamicVariable) or bag.param.backend_type != "hybrid":
            raise ValueError(
                "use_low_frequency_filter needs variables of sok.DynamicVariable with "
                f"var_type='hybrid', got {bag.param.name}"
            )


def _in_like_forms(bags: Sequence[_Bag]) -> list[BagsOfKeys]:
    """Returns the bags with ids and weights of one form: ragged where the forms differ."""
    differing = [i for i, bag in enumerate(bags) if bag.weights is not None and _differ(bag)]
    sparse = [bags[i].ids if _is_sparse(bags[i].ids) else bags[i].weights for i in differing]
    splits = split_bags([BagsOfKeys(one, f"sp_ids[{i}]") for i, one in zip(differing, sparse)])
    as_ragged = dict(zip(differing, splits)) if differing else {}
    given = []
    for i, bag in enumerate(bags):
        ids, weights = (
            _ragged(one, as_ragged[i]) if i in as_ragged and _is_sparse(one) else one
            for one in (bag.ids, bag.weights)
        )
        given.append(BagsOfKeys(ids, f"sp_ids[{i}]", weights=weights))
    return given


def _is_sparse(bags: Any) -> bool:
    return isinstance(bags, tf.SparseTensor)


def _differ(bag: _Bag) -> bool:
    return _is_sparse(bag.ids) != _is_sparse(bag.weights)


def _ragged(bags: tf.SparseTensor, split: SplitKeys) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_splits(bags.values, split.row_splits, validate=False)


def _pooled(bags: Sequence[_Bag], splits: Sequence[SplitKeys], has_filter: bool) -> list[tf.Tensor]:
    outputs: dict[int, tf.Tensor] = {}
    by_insert: dict[Insert, list[int]] = {}
    plain: list[int] = []
    weighted: list[int] = []
    for i, bag in enumerate(bags):
        if isinstance(bag.param, Table):
            by_insert.setdefault(_insert_of(bag.param), []).append(i)
        else:
            (plain if bag.weights is None else weighted).append(i)
    for insert, of_tables in by_insert.items():
        lookups = [
            Lookup(
                bags[i].param, splits[i].keys, splits[i].row_splits, bags[i].combiner,
                splits[i].weights,
                new_keys=NewKeys(draw=_draw_of(bags[i]) if has_filter and insert is True else None),
            )
            for i in of_tables
        ]  # fmt: skip
        outputs.update(zip(of_tables, lookup_group(lookups, insert)))
    if plain:
        pooled = pooled_rows_of_group(
            [bags[i].param for i in plain],
            [splits[i].keys for i in plain],
            [splits[i].row_splits for i in plain],
            [bags[i].combiner for i in plain],
        )
        outputs.update(zip(plain, pooled))
    for i in weighted:
        rows = tf.gather(bags[i].param, splits[i].keys)
        weights = tf.stop_gradient(tf.cast(splits[i].weights, rows.dtype))
        outputs[i] = pool_rows(rows, splits[i].row_splits, bags[i].combiner, weights)
    for i, bag in enumerate(bags):
        batch_size = tf.compat.dimension_value(bag.ids.shape[0])
        outputs[i].set_shape([batch_size, tf.compat.dimension_value(bag.param.shape[-1])])
    return [outputs[i] for i in range(len(bags))]


def _draw_of(bag: _Bag) -> KeyDraw | None:
    ratio = bag.param.options.filter_ratio
    return KeyDraw(ratio, bag.param.seed) if bag.weights is None and ratio < 1 else None


def _insert_of(table: Table) -> Insert:
    """When new keys of a table get rows: those of DeepRec come with gradients."""
    if not may_insert():
        return False
    if isinstance(table, LooksUpKeys) or tf.executing_eagerly():
        return True
    return WITH_GRADIENT


def _as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


__all__ = [
    "all2all_dense_embedding",
    "group_lookup",
    "lookup_sparse",
    "lookup_sparse_impl",
    "sparse_read_and_evict",
]
