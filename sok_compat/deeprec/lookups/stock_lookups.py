# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's `nn.embedding_lookup` and sparse lookups, extended to embedding variables.

Looks up the rows of all distinct ids of a step once; TensorFlow's functions then use these rows
like those of any tensor.
"""

from __future__ import annotations

from typing import Any, Union

import tensorflow as tf

from sok_compat.deeprec.variables.composed_variables import (
    DynamicEmbeddingVariable,
    MultiHashVariable,
)
from sok_compat.deeprec.variables.embedding_variable import (
    EmbeddingVariable,
    PartitionedEmbeddingVariable,
)
from sok_compat.lookup.bags_of_keys import BagsOfKeys, checked_weights

_stock = tf.compat.v1.nn
_EmbeddingVariable = Union[EmbeddingVariable, PartitionedEmbeddingVariable, MultiHashVariable]


def _embedding_variable(params: Any) -> _EmbeddingVariable | None:
    """The only embedding variable in `params`; None if there is none.

    Raises:
      TypeError: there are also other params.
    """
    is_list = isinstance(params, (list, tuple))
    kinds = (EmbeddingVariable, PartitionedEmbeddingVariable, MultiHashVariable)
    found = [p for p in (params if is_list else [params]) if isinstance(p, kinds)]
    if not found:
        return None
    if is_list and len(params) > 1:
        raise TypeError(
            "this lookup takes a single embedding variable, as a list means the parts of one, got "
            f"{[p.name for p in found]}: use nn.group_embedding_lookup_sparse for several"
        )
    return found[0]


def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: float | None = None,
    blocknums: Any = None,
) -> tf.Tensor:
    """As tf.compat.v1.nn.embedding_lookup. API of DeepRec.

    Args:
      params: as in TensorFlow, or an embedding variable, a multihash or dynamic-dimension
        variable, or a list of one.
      ids: integers of any shape.
      partition_strategy: as in TensorFlow; ignored for embedding variables.
      name: name of the ops.
      validate_indices: ignored, as in TensorFlow.
      max_norm: clips rows to this L2 norm; None: does not clip.
      blocknums: of a dynamic-dimension variable: integers of the shape of the ids, how many blocks
        of each to read.

    Returns:
      [*shape of the ids, dim].

    Raises:
      TypeError: a list of an embedding variable and others; ids are not integers.
      ValueError: a dynamic-dimension variable without blocknums.
    """
    only = params[0] if isinstance(params, (list, tuple)) and len(params) == 1 else params
    variable = _embedding_variable(params)
    if isinstance(only, DynamicEmbeddingVariable):
        rows = only.lookup(ids, blocknums)
    elif variable is None:
        return _stock.embedding_lookup(
            params, ids, partition_strategy, name, validate_indices, max_norm
        )
    else:
        rows = variable.sparse_read(ids, name)
    if max_norm is None:
        return rows
    return tf.clip_by_norm(rows, max_norm, axes=[-1])


def embedding_lookup_sparse(
    params: Any,
    sp_ids: tf.SparseTensor,
    sp_weights: tf.SparseTensor | None,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: float | None = None,
) -> tf.Tensor:
    """As tf.compat.v1.nn.embedding_lookup_sparse. API of DeepRec.

    Args:
      params: as in TensorFlow, or an embedding variable, or a list of one.
      sp_ids: tf.SparseTensor [batch, columns], without empty rows.
      sp_weights: floats at the positions of sp_ids, or None.
      partition_strategy: as in TensorFlow; ignored for embedding variables.
      name: name of the ops.
      combiner: 'mean' (also None), 'sum' or 'sqrtn'.
      max_norm: clips rows to this L2 norm; None: does not clip.

    Returns:
      [batch, dim], without empty rows at the end.

    Raises:
      TypeError: a list of an embedding variable and others; a wrong kind of sp_ids or weights.
      ValueError: weights whose indices have another static shape than those of the ids.
      tf.errors.InvalidArgumentError: when run: weights and ids at different positions.
    """
    variable = _embedding_variable(params)
    if variable is not None:
        sp_weights = _checked_weights("sp_ids", sp_ids, sp_weights)
        params = variable.sparse_read(sp_ids.values)
        sp_ids = sp_ids.with_values(tf.range(tf.size(sp_ids.values)))
    return _stock.embedding_lookup_sparse(
        params, sp_ids, sp_weights, partition_strategy, name, combiner, max_norm
    )


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: tf.SparseTensor,
    sparse_weights: tf.SparseTensor | None = None,
    combiner: str = "mean",
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: float | None = None,
    prune: bool = True,
) -> tf.Tensor:
    """As tf.compat.v1.nn.safe_embedding_lookup_sparse. API of DeepRec.

    Args:
      embedding_weights: as in TensorFlow, or an embedding variable, or a list of one.
      sparse_ids: tf.SparseTensor of integers; ignores those below 0.
      sparse_weights: floats at the positions of sparse_ids, or None; unless the combiner is 'sum',
        ignores those that are not positive.
      combiner: 'mean', 'sum' or 'sqrtn'.
      default_id: the id to look up for empty rows; None: empty rows are zeros.
      name: name of the ops.
      partition_strategy: as in TensorFlow; ignored for embedding variables.
      max_norm: clips rows to this L2 norm; None: does not clip.
      prune: True.

    Returns:
      [*shape of sparse_ids without the last dimension, dim].

    Raises:
      TypeError: a list of an embedding variable and others; a wrong kind of ids or weights.
      NotImplementedError: prune is False.
      ValueError: weights whose indices have another static shape than those of the ids.
      tf.errors.InvalidArgumentError: when run: weights and ids at different positions.
    """
    variable = _embedding_variable(embedding_weights)
    if not prune:
        raise NotImplementedError(
            "safe_embedding_lookup_sparse does not support prune=False: it ignores ids below 0 "
            "and, unless the combiner is 'sum', weights that are not positive; "
            "nn.group_embedding_lookup_sparse keeps all"
        )
    if variable is not None:
        sparse_weights = _checked_weights("sparse_ids", sparse_ids, sparse_weights)
        is_taken = sparse_ids.values >= 0
        if sparse_weights is not None and combiner != "sum":
            is_taken = tf.logical_and(is_taken, sparse_weights.values > 0)
        ids = sparse_ids.values
        embedding_weights, places = _rows_and_places(variable, ids, is_taken, default_id)
        sparse_ids = sparse_ids.with_values(places)
        default_id = None if default_id is None else 0
    return _stock.safe_embedding_lookup_sparse(
        embedding_weights,
        sparse_ids,
        sparse_weights,
        combiner,
        default_id,
        name,
        partition_strategy,
        max_norm,
    )


def _checked_weights(name: str, sp_ids: Any, sp_weights: Any) -> tf.SparseTensor | None:
    """sp_weights as float32, with a check at their positions. `name` is that of the ids."""
    if not isinstance(sp_ids, tf.SparseTensor):
        raise TypeError(f"{name} must be SparseTensor, got {type(sp_ids).__name__}")
    if sp_weights is None:
        return None
    if not isinstance(sp_weights, tf.SparseTensor):
        raise TypeError(
            f"{name}: weights must be None or SparseTensor, got {type(sp_weights).__name__}"
        )
    if not sp_weights.dtype.is_floating:
        raise TypeError(f"{name}: weights must be floats, got {sp_weights.dtype.name}")
    places, expected = sp_weights.indices.shape, sp_ids.indices.shape
    if not places.is_compatible_with(expected):
        raise ValueError(
            f"{name}: sp_weights must have the indices of the ids, so that each id has a weight, "
            f"but its indices have the shape {places}, those of the ids {expected}"
        )
    weights = sp_weights.with_values(tf.cast(sp_weights.values, tf.float32))
    (values,) = checked_weights([BagsOfKeys(sp_ids, name, weights=weights)])
    return weights.with_values(values)


def _rows_and_places(
    variable: _EmbeddingVariable, ids: Any, is_taken: tf.Tensor, default_id: int | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """(rows [n + 1, dim], the index of each id's row; -1 for ignored ids).

    The first row is that of default_id. Without a default_id, TensorFlow looks up the first row for
    empty rows, and replaces it by zeros.
    """
    ids = variable.checked_ids(ids)
    places = tf.where(is_taken, tf.cumsum(tf.cast(is_taken, tf.int64)), -1)
    taken = tf.boolean_mask(ids, is_taken)
    if default_id is None:
        return tf.pad(variable.sparse_read(taken), [[1, 0], [0, 0]]), places
    return variable.sparse_read(tf.concat([[default_id], taken], 0)), places
