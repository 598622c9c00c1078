# SPDX-License-Identifier: Apache-2.0
"""A group of lookups in tables that are on one rank each, of which that rank alone has the keys,
for all ranks: each gets its part. No keys travel; rows and gradients do as of any group."""

import tensorflow as tf

from sok_compat.lookup.group import ShardedRequest, description_of, distinct_keys, exchanged_rows
from sok_compat.ranks.collectives import begin_collective, gradient_occurrence
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import variable_accessed


@tf.autograph.experimental.do_not_convert
def lookup_batch_at_owner(lookups, outputs_of_rank, insert):
    """The part of this rank of what each lookup gives.

    Args:
      lookups: list of `Lookup`, of the same tables on all ranks, which are on one rank each, and on
        one device; on the rank of its table a lookup has the bags of rank 0, then those of rank 1,
        and so on, and on others none.
      outputs_of_rank: scalar int64: bags, or keys without bags, that each lookup has for each rank.
      insert: bool, as of `lookup_group`.

    Returns:
      float32 [outputs_of_rank, dim] for each lookup, with zeros for a bag without keys;
      differentiable by the tables, whose gradients are sums over ranks.

    Raises:
      tf.errors.InvalidArgumentError: when run, on all ranks: a key that is none of its table; a
        lookup has another number of bags.
    """
    for lookup in lookups:
        variable_accessed(lookup.table)
    collective = begin_batch_at_owner(lookups, insert)
    with tf.device(lookups[0].table.device):
        keys, places = distinct_keys(lookups, insert)
        replies = tf.range(tf.cast(outputs_of_rank, tf.int32))
        requested = ShardedRequest(
            requested_keys=keys,
            requested_places=places,
            requested_splits=[_splits(lookup) for lookup in lookups],
            requested_weights=[_weights(lookup) for lookup in lookups],
            requested_counts=[_counts_at_owner(lookup, outputs_of_rank) for lookup in lookups],
            replies=[replies] * len(lookups),
            reply_splits=None,
            reply_weights=None,
            reply_counts=[_counts_of_owner(lookup, outputs_of_rank) for lookup in lookups],
            factors=None,
            collective=collective,
        )
        return exchanged_rows(lookups, requested, insert)


def begin_batch_at_owner(lookups, insert):
    """The collective of `lookup_batch_at_owner`, also for failures before it: see `begin_group`."""
    return begin_collective(*description_of(lookups, insert, ["whole"] * len(lookups)))


def _splits(lookup):
    if lookup.row_splits is not None:
        return lookup.row_splits
    return tf.range(tf.size(lookup.keys, tf.int64) + 1)


def _weights(lookup):
    """What rows are multiplied by before they are added up: for means, too."""
    if lookup.combiner != "mean":
        return tf.constant([], tf.float32)
    lengths = lookup.row_splits[1:] - lookup.row_splits[:-1]
    return tf.repeat(1 / tf.cast(tf.maximum(lengths, 1), tf.float32), lengths)


def _counts_at_owner(lookup, outputs_of_rank):
    """[ranks] of the outputs that this rank gives to each."""
    placement = lookup.table.placement
    is_owner = placement.owner_rank == placement.ranks.rank
    return tf.fill([placement.ranks.size], outputs_of_rank * int(is_owner))


def _counts_of_owner(lookup, outputs_of_rank):
    """[ranks] of the outputs that this rank gets from each."""
    placement = lookup.table.placement
    return tf.one_hot(placement.owner_rank, placement.ranks.size, outputs_of_rank, 0, 0, tf.int64)


def number_of_each_rank(number, ranks, name):
    """int64 [ranks]: what each rank says; all ranks take part.

    Args:
      number: scalar int64 of this rank, at least 0 and below 2^31.
      ranks: the Ranks.
      name: the same on all ranks.
    """
    collective = begin_collective(name)
    one_each = tf.ones([ranks.size], tf.int64)
    with tf.device("CPU:0"):
        sent = tf.bitcast(tf.cast(number, tf.int32), tf.float32)  # bytes travel as they are
        (received,) = ops.sok_exchange_gradients(
            gradients=[tf.fill([ranks.size, 1], sent)],
            requested_counts=[one_each],
            reply_counts=[one_each],
            collective=collective,
            occurrence=gradient_occurrence(collective),
        )
        return tf.cast(tf.bitcast(received[:, 0], tf.int32), tf.int64)
