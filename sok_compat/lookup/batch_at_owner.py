# SPDX-License-Identifier: Apache-2.0
"""Lookups whose keys only the owner of a table has, for the batch of all ranks.

Each table is on one rank. Keys are not exchanged; rows and gradients are, as of any group.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from sok_compat.lookup.group import description_of, distinct_keys, exchanged_rows
from sok_compat.lookup.sharded_request import ShardedRequest
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.ranks.collectives import begin_collective, gradient_occurrence
from sok_compat.ranks.identity import Ranks
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import variable_accessed


@tf.autograph.experimental.do_not_convert
def lookup_batch_at_owner(
    lookups: Sequence[Lookup], outputs_of_rank: tf.Tensor, insert: bool
) -> list[tf.Tensor]:
    """Returns this rank's part of each lookup's output.

    Args:
      lookups: list of `Lookup`, of the same tables on all ranks and on one device. A lookup has the
        bags of rank 0, 1 and so on at the owner of its table, and none on other ranks.
      outputs_of_rank: scalar int64: bags (or keys, without bags) of each lookup for each rank.
      insert: bool, as of `lookup_group`.

    Returns:
      float32 [outputs_of_rank, dim] for each lookup, with zeros for a bag without keys;
      differentiable by the tables, whose gradients are sums over ranks.

    Raises:
      tf.errors.InvalidArgumentError: when run, on all ranks: a key is out of its table's range; a
        lookup has another number of bags.
    """
    lookups = [lookup.inserting(insert) for lookup in lookups]
    for lookup in lookups:
        variable_accessed(lookup.table)
    collective = begin_batch_at_owner(lookups, insert)
    with tf.device(lookups[0].table.device):
        keys, places = distinct_keys(lookups)
        replies = tf.range(tf.cast(outputs_of_rank, tf.int32))
        requested = ShardedRequest(
            requested_keys=keys,
            requested_places=places,
            requested_splits=[_splits(lookup) for lookup in lookups],
            requested_weights=[_weights(lookup) for lookup in lookups],
            requested_counts=[_counts_at_owner(lookup, outputs_of_rank) for lookup in lookups],
            replies=[replies] * len(lookups),
            reply_splits=[],
            reply_weights=[],
            reply_counts=[_counts_of_owner(lookup, outputs_of_rank) for lookup in lookups],
            factors=[],
            collective=collective,
        )
        # Ranks that receive do not know the combiners.
        return exchanged_rows(lookups, requested, may_be_sums=True)


def begin_batch_at_owner(lookups: Sequence[Lookup], insert: bool) -> tf.Tensor:
    """Begins the collective of `lookup_batch_at_owner`; see `begin_group`."""
    lookups = [lookup.inserting(insert) for lookup in lookups]
    names = [lookup.table.table_name for lookup in lookups]
    described = description_of(lookups, ["whole"] * len(lookups))
    return begin_collective(*described, tables=names)


def _splits(lookup: Lookup) -> tf.Tensor:
    if lookup.row_splits is not None:
        return lookup.row_splits
    return tf.range(tf.size(lookup.keys, tf.int64) + 1)


def _weights(lookup: Lookup) -> tf.Tensor:
    """Factors of rows in a sum: 1 / length of the bag for means, else none."""
    if lookup.combiner != "mean":
        return tf.constant([], tf.float32)
    splits: tf.Tensor = lookup.row_splits
    lengths = splits[1:] - splits[:-1]
    return tf.repeat(1 / tf.cast(tf.maximum(lengths, 1), tf.float32), lengths)


def _counts_at_owner(lookup: Lookup, outputs_of_rank: tf.Tensor) -> tf.Tensor:
    """Returns the number of outputs that this rank sends to each rank, [ranks]."""
    placement = lookup.table.placement
    is_owner = placement.owner_rank == placement.ranks.rank
    return tf.fill([placement.ranks.size], outputs_of_rank * int(is_owner))


def _counts_of_owner(lookup: Lookup, outputs_of_rank: tf.Tensor) -> tf.Tensor:
    """Returns the number of outputs that this rank receives from each rank, [ranks]."""
    placement = lookup.table.placement
    return tf.one_hot(placement.owner_rank, placement.ranks.size, outputs_of_rank, 0, 0, tf.int64)


def number_of_each_rank(number: tf.Tensor, ranks: Ranks, name: str) -> tf.Tensor:
    """Gathers a scalar int64 of each rank, int64 [ranks], in a collective of this name."""
    collective = begin_collective(name)
    one_each = tf.ones([ranks.size], tf.int64)
    with tf.device("CPU:0"):
        (received,) = ops.sok_exchange_values(
            values=[tf.fill([ranks.size, 1], number)],
            requested_counts=[one_each],
            reply_counts=[one_each],
            collective=collective,
            occurrence=gradient_occurrence(collective),
        )
        return received[:, 0]
