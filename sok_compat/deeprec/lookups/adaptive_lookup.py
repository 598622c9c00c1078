# SPDX-License-Identifier: Apache-2.0
"""Lookups that read each id in an ordinary variable or in an embedding variable, by a mask."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from sok_compat.deeprec.lookups.ordinary_lookup import pool_ordinary
from sok_compat.deeprec.variables.embedding_variable import (
    EmbeddingVariable,
    PartitionedEmbeddingVariable,
)
from sok_compat.lookup.bags_of_keys import SplitKeys
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.initial_rows import InitialRows
from sok_compat.lookup.new_keys import WITH_GRADIENT, NewKeys
from sok_compat.lookup.table_lookup import Lookup

_stock = tf.compat.v1.nn
_KINDS = (EmbeddingVariable, PartitionedEmbeddingVariable)


@dataclasses.dataclass(frozen=True, eq=False)
class AdaptiveIds:
    """The ids of a batch, as both variables know them.

    keys: tf.SparseTensor of integers: the keys of the embedding variable; any where the mask is 0.
    buckets: integers [number of ids]: the rows of the ordinary variable.
    mask: int32 [number of ids]: 0 for the ordinary variable, 1 for the embedding variable.
    """

    keys: tf.SparseTensor
    buckets: tf.Tensor
    mask: tf.Tensor

    def in_bags(self, variable: EmbeddingVariable) -> AdaptiveBags:
        """The ids of each sample, checked as the variable's; keys are [batch, columns], in any
        order."""
        places = tf.sparse.reorder(self.keys.with_values(tf.range(tf.size(self.mask))))
        mask = tf.gather(self.mask, places.values)
        of_ordinary, of_variable = tf.dynamic_partition(places.values, mask, 2)
        samples = tf.range(self.keys.dense_shape[0] + 1)

        def split(values, positions):
            sorted_samples = tf.gather(self.keys.indices[:, 0], positions)
            row_splits = tf.searchsorted(sorted_samples, samples, out_type=tf.int64)
            return SplitKeys(tf.gather(values, positions), row_splits)

        buckets = tf.gather(self.buckets, of_variable)
        keys, row_splits, _ = split(self.keys.values, of_variable)
        bags = SplitKeys(variable.checked_ids(keys), row_splits)
        return AdaptiveBags(bags, buckets, split(self.buckets, of_ordinary))

    def rows(self, ordinary: Any, variable: Any, partition_strategy: str) -> tf.Tensor:
        """The row of each id, float32 [number of ids, dim].

        A key that the embedding variable, whole or in parts, does not have reads the row of its
        bucket in `ordinary` [buckets, dim]. In a step that computes gradients, it starts with this
        row, and gets the gradient in its place.
        """
        positions = tf.dynamic_partition(tf.range(tf.size(self.mask)), self.mask, 2)
        of_ordinary, of_variable = positions
        rows = variable.sparse_read(
            tf.gather(self.keys.values, of_variable),
            initial_rows=_rows_of_buckets(
                ordinary, tf.gather(self.buckets, of_variable), partition_strategy
            ),
        )
        # An optimizer must not change the ordinary variable before new keys have read it: its
        # gradient has these ids.
        with tf.control_dependencies([rows]):
            others = tf.gather(self.buckets, of_ordinary)
        of_buckets = tf.cast(
            _stock.embedding_lookup(ordinary, others, partition_strategy), tf.float32
        )
        return tf.dynamic_stitch(positions, [of_buckets, rows])

    def pooled(
        self, ordinary: Any, variable: Any, combiner: str, max_norm: float | None, name: str
    ) -> tf.Tensor:
        """Pools the rows of each sample, of `rows` with strategy 'div', clipped to the L2 norm
        `max_norm` unless that is None.

        Returns:
          float32 [*shape of the keys without the last dimension, dim]; zeros without ids.
        """
        rows = self.rows(ordinary, variable, "div")
        # The lookup of an empty sample reads the first row, and replaces it by zeros.
        rows = tf.pad(rows, [[1, 0], [0, 0]])
        places = self.keys.with_values(tf.range(1, tf.shape(rows)[0]))
        return _stock.safe_embedding_lookup_sparse(
            rows, places, None, combiner, None, name, "div", max_norm
        )


class AdaptiveBags(NamedTuple):
    """The ids of a batch in bags, divided by where their rows are.

    of_variable: the SplitKeys of the embedding variable.
    buckets: int64 [number of its keys]: their rows in the ordinary variable.
    of_ordinary: the SplitKeys of the ordinary variable.
    """

    of_variable: SplitKeys
    buckets: tf.Tensor
    of_ordinary: SplitKeys


def pooled_adaptive(
    variables: Sequence[EmbeddingVariable],
    ordinary: Sequence[Any],
    bags: Sequence[AdaptiveBags],
    combiners: Sequence[str],
) -> list[tf.Tensor]:
    """The pooled rows of each bag, float32 [bags, dim], for each pair of whole variables: as
    AdaptiveIds.rows, with few ops that grow with the pairs. A combiner is 'mean' or 'sum'."""
    lookups = [
        Lookup(
            variable,
            *own.of_variable[:2],
            "sum",
            new_keys=NewKeys(initial_rows=_rows_of_buckets(rows, own.buckets)),
        )
        for variable, rows, own in zip(variables, ordinary, bags)
    ]
    of_variables = lookup_group(lookups, WITH_GRADIENT)
    with tf.control_dependencies(of_variables):  # for the same reason as in AdaptiveIds.rows
        keys = tf.identity_n([own.of_ordinary.keys for own in bags])
    splits = [SplitKeys(*each) for each in zip(keys, [own.of_ordinary.row_splits for own in bags])]
    of_ordinary = pool_ordinary(ordinary, splits, ["sum"] * len(splits))
    sums = [tf.add(*both) for both in zip(of_variables, of_ordinary)]
    return [_combined(*each) for each in zip(sums, bags, combiners)]


def _combined(sums: tf.Tensor, bags: AdaptiveBags, combiner: str) -> tf.Tensor:
    if combiner == "sum":
        return sums
    ends = bags.of_variable.row_splits + bags.of_ordinary.row_splits
    sizes = tf.cast(ends[1:] - ends[:-1], tf.float32)
    return tf.math.divide_no_nan(sums, sizes[:, tf.newaxis])


def _rows_of_buckets(ordinary: Any, buckets: tf.Tensor, strategy: str = "div") -> InitialRows:
    def rows_of(some):
        found = _stock.embedding_lookup(ordinary, some, strategy)
        return tf.stop_gradient(tf.cast(found, tf.float32))

    return InitialRows(buckets, rows_of)


def adaptive_embedding_lookup_sparse(
    hash_params: Any,
    ev_params: Any,
    sp_ids: tf.SparseTensor,
    hash_ev_ids: Any,
    sp_weights: None,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: float | None = None,
    bucket_size: int | None = None,
    adaptive_mask_tensor: Any = None,
    blocknums: Any = None,
) -> tf.Tensor:
    """As nn.embedding_lookup_sparse, in one of two variables for each id. API of DeepRec.

    A key that the embedding variable does not have reads the row of its bucket in the ordinary
    variable. In a step that computes gradients, it starts with this row, and gets the gradient in
    its place. Unlike in DeepRec, a sample may have several ids, which the combiner combines.

    Args:
      hash_params: the ordinary variable [buckets, dim], whole or in parts.
      ev_params: an embedding variable, or a list of one.
      sp_ids: tf.SparseTensor [batch, columns] of integers, without empty rows: buckets where the
        mask is 0, keys where it is 1.
      hash_ev_ids: integers [number of keys]: the bucket of each key.
      sp_weights: None.
      partition_strategy: of hash_params, 'mod' or 'div'.
      name: name of the ops.
      combiner: 'mean' (also None), 'sum' or 'sqrtn'.
      max_norm: clips rows to this L2 norm; None: does not clip.
      bucket_size: ignored.
      adaptive_mask_tensor: int32 [number of ids], 0 or 1.
      blocknums: ignored.

    Returns:
      float32 [batch, dim], without empty rows at the end.

    Raises:
      TypeError: sp_ids is not a SparseTensor; ev_params is not one embedding variable.
      ValueError: sp_weights are given, or no adaptive_mask_tensor.
      tf.errors.InvalidArgumentError: when run: the mask has other values, or another size.
    """
    del bucket_size, blocknums
    variable = _only(ev_params)
    _check_ids(sp_ids, sp_weights, adaptive_mask_tensor)
    with tf.name_scope(name or "adaptive_embedding_lookup_sparse"):
        mask = tf.cast(tf.reshape(adaptive_mask_tensor, [-1]), tf.int32)
        positions = tf.dynamic_partition(tf.range(tf.size(sp_ids.values)), mask, 2)
        of_params = tf.gather(sp_ids.values, positions[0])
        of_keys = tf.cast(tf.reshape(hash_ev_ids, [-1]), of_params.dtype)
        buckets = tf.dynamic_stitch(positions, [of_params, of_keys])
        rows = AdaptiveIds(sp_ids, buckets, mask).rows(hash_params, variable, partition_strategy)
        places = sp_ids.with_values(tf.range(tf.shape(rows)[0]))
        return _stock.embedding_lookup_sparse(rows, places, None, "mod", None, combiner, max_norm)


def _check_ids(sp_ids: Any, sp_weights: Any, mask: Any) -> None:
    if not isinstance(sp_ids, tf.SparseTensor):
        raise TypeError(f"sp_ids must be SparseTensor, got {type(sp_ids).__name__}")
    if sp_weights is not None:
        raise ValueError(
            "adaptive_embedding_lookup_sparse takes no weights, got sp_weights="
            f"{sp_weights!r}: use nn.embedding_lookup_sparse"
        )
    if mask is None:
        raise ValueError(
            "adaptive_embedding_lookup_sparse needs an adaptive_mask_tensor, got None: give int32 "
            "[number of ids], 0 to read hash_params and 1 to read ev_params"
        )


def _only(ev_params: Any) -> EmbeddingVariable | PartitionedEmbeddingVariable:
    params = list(ev_params) if isinstance(ev_params, (list, tuple)) else [ev_params]
    if len(params) != 1 or not isinstance(params[0], _KINDS):
        raise TypeError(
            "ev_params must be an embedding variable, or a list of one, got "
            f"{[type(each).__name__ for each in params]}: make it with tf.get_embedding_variable"
        )
    return params[0]
