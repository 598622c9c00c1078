# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's `nn.embedding_lookup` and its sparse kin, which here take embedding variables, too.

Rows are looked up for all ids of a step, distinct ones once; TensorFlow's functions then do with
them what they do with the rows of any tensor.
"""

import tensorflow as tf

from sok_compat.deeprec.variables.embedding_variable import (
    EmbeddingVariable,
    PartitionedEmbeddingVariable,
)
from sok_compat.lookup.bags_of_keys import BagsOfKeys, checked_weights

_stock = tf.compat.v1.nn


def _embedding_variable(params):
    """The one embedding variable that `params` are; None where there is none.

    Raises:
      TypeError: one of several.
    """
    is_list = isinstance(params, (list, tuple))
    kinds = (EmbeddingVariable, PartitionedEmbeddingVariable)
    found = [p for p in (params if is_list else [params]) if isinstance(p, kinds)]
    if not found:
        return None
    if is_list and len(params) > 1:
        raise TypeError(
            "a lookup takes one embedding variable: a list would be parts of one, got "
            f"{[p.name for p in found]}; use nn.group_embedding_lookup_sparse for several"
        )
    return found[0]


def embedding_lookup(
    params, ids, partition_strategy="mod", name=None, validate_indices=True, max_norm=None
):
    """As tf.compat.v1.nn.embedding_lookup. API of DeepRec.

    Args:
      params: as there, or an embedding variable, or a list of one.
      ids: integers of any shape.
      partition_strategy: as there; ignored for embedding variables.
      name: of the ops.
      validate_indices: ignored, as there.
      max_norm: rows of a larger L2 norm are scaled to it; None: none.

    Returns:
      [*shape of the ids, dim].

    Raises:
      TypeError: a list with an embedding variable and others; ids that are no integers.
    """
    variable = _embedding_variable(params)
    if variable is None:
        return _stock.embedding_lookup(
            params, ids, partition_strategy, name, validate_indices, max_norm
        )
    rows = variable.sparse_read(ids, name)
    if max_norm is None:
        return rows
    return tf.clip_by_norm(rows, max_norm, axes=[-1])


def embedding_lookup_sparse(
    params, sp_ids, sp_weights, partition_strategy="mod", name=None, combiner=None, max_norm=None
):
    """As tf.compat.v1.nn.embedding_lookup_sparse. API of DeepRec.

    Args:
      params: as there, or an embedding variable, or a list of one.
      sp_ids: tf.SparseTensor [batch, columns]; no row is empty.
      sp_weights: floats in the places of sp_ids, or None.
      partition_strategy: as there; ignored for embedding variables.
      name: of the ops.
      combiner: 'mean' (also None), 'sum' or 'sqrtn'.
      max_norm: rows of a larger L2 norm are scaled to it; None: none.

    Returns:
      [batch, dim], without the empty rows at the end.

    Raises:
      TypeError: a list with an embedding variable and others; sp_ids or weights of another kind.
      tf.errors.InvalidArgumentError: when run: weights in other places than ids.
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
    embedding_weights,
    sparse_ids,
    sparse_weights=None,
    combiner="mean",
    default_id=None,
    name=None,
    partition_strategy="div",
    max_norm=None,
    prune=True,
):
    """As tf.compat.v1.nn.safe_embedding_lookup_sparse. API of DeepRec.

    Args:
      embedding_weights: as there, or an embedding variable, or a list of one.
      sparse_ids: tf.SparseTensor of integers; those below 0 are left out.
      sparse_weights: floats in the places of sparse_ids, or None; where the combiner is not 'sum',
        those that are not above 0 are left out.
      combiner: 'mean', 'sum' or 'sqrtn'.
      default_id: what is looked up for rows without ids; None: they are zeros.
      name: of the ops.
      partition_strategy: as there; ignored for embedding variables.
      max_norm: rows of a larger L2 norm are scaled to it; None: none.
      prune: True.

    Returns:
      [*shape of sparse_ids without the last dimension, dim].

    Raises:
      TypeError: a list with an embedding variable and others; ids or weights of another kind.
      NotImplementedError: prune is False.
      tf.errors.InvalidArgumentError: when run: weights in other places than ids.
    """
    variable = _embedding_variable(embedding_weights)
    if not prune:
        raise NotImplementedError(
            "safe_embedding_lookup_sparse leaves out ids below 0 and, where it does not sum, "
            "weights that are not above 0: prune=False is not supported; "
            "nn.group_embedding_lookup_sparse takes all"
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


def _checked_weights(name, sp_ids, sp_weights):
    """sp_weights as float32; when run, they stand where the ids do. `name` is that of the ids."""
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
    weights = sp_weights.with_values(tf.cast(sp_weights.values, tf.float32))
    (values,) = checked_weights([BagsOfKeys(sp_ids, name, weights=weights)])
    return weights.with_values(values)


def _rows_and_places(variable, ids, is_taken, default_id):
    """(rows [n + 1, dim], where among them the row of each id is; -1 for ids that are left out).
    The first row is that of default_id. Without one, TensorFlow looks it up for what is empty, and
    puts zeros in its place."""
    ids = variable.checked_ids(ids)
    places = tf.where(is_taken, tf.cumsum(tf.cast(is_taken, tf.int64)), -1)
    taken = tf.boolean_mask(ids, is_taken)
    if default_id is None:
        return tf.pad(variable.sparse_read(taken), [[1, 0], [0, 0]]), places
    return variable.sparse_read(tf.concat([[default_id], taken], 0)), places


NAMES = {
    "nn.embedding_lookup": embedding_lookup,
    "nn.embedding_lookup_sparse": embedding_lookup_sparse,
    "nn.safe_embedding_lookup_sparse": safe_embedding_lookup_sparse,
}
