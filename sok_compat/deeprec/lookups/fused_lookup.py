# SPDX-License-Identifier: Apache-2.0
"""`fused_safe_embedding_lookup_sparse`: a safe lookup by the ops of a group of one."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.deeprec.lookups.group_lookup import COMBINERS, pooled_rows, split_ids, whole_of
from sok_compat.deeprec.lookups.stock_lookups import safe_embedding_lookup_sparse
from sok_compat.lookup.dense_tables import tables_are_dense
from sok_compat.runtime.tf_versions import Variable


def fused_safe_embedding_lookup_sparse(
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
    """As safe_embedding_lookup_sparse, by fewer ops. API of DeepRec.

    Partitioned variables, weights, a default_id, a max_norm and the combiner 'sqrtn' take as many
    ops as there. Arguments, result and errors are as there.
    """
    only = embedding_weights
    if isinstance(only, (list, tuple)) and len(only) == 1:
        only = only[0]
    only = whole_of(only)
    is_whole = isinstance(only, Variable)
    is_plain = sparse_weights is None and default_id is None and max_norm is None and prune
    is_sparse = isinstance(sparse_ids, tf.SparseTensor) and sparse_ids.shape.rank is not None
    if not (is_whole and is_plain and is_sparse and combiner in COMBINERS) or tables_are_dense():
        return safe_embedding_lookup_sparse(
            embedding_weights,
            sparse_ids,
            sparse_weights,
            combiner,
            default_id,
            name,
            partition_strategy,
            max_norm,
            prune,
        )
    with tf.name_scope(name or "fused_safe_embedding_lookup_sparse"):
        shape = sparse_ids.dense_shape
        bags = tf.sparse.reshape(sparse_ids, [tf.reduce_prod(shape[:-1]), shape[-1]])
        taken = tf.sparse.retain(bags, bags.values >= 0)
        (pooled,) = pooled_rows([only], split_ids([only], [taken], [None]), [combiner])
        dim = pooled.shape[1]
        output = tf.reshape(pooled, tf.concat([shape[:-1], [dim]], 0))
        output.set_shape(sparse_ids.shape[:-1].concatenate([dim]))
        return output
