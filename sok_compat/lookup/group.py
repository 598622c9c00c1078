# SPDX-License-Identifier: Apache-2.0
"""A group of lookups: keys -> distinct keys -> row ids -> pooled rows, and its gradient.

Every stage of a group is one op for any number of tables, dims, combiners and key dtypes, or two
concurrent ops for many tables on one process's CPU. On several ranks a group is one request in each
exchange. A single lookup is a group of one.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.lookup.dense_tables import look_up_dense, tables_are_dense
from sok_compat.lookup.find_rows import find_rows
from sok_compat.lookup.gradients.branches import prepare_for_gradients
from sok_compat.lookup.initial_rows import first_occurrences, received_at_owner
from sok_compat.lookup.keys import checked_keys
from sok_compat.lookup.new_keys import Insert, NewKeys
from sok_compat.lookup.prefetching.batches import prefetched_request
from sok_compat.lookup.sharded_request import ShardedRequest
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.ranks.collectives import begin_collective
from sok_compat.ranks.wire_dtype import wire_dtype
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import is_within_xla, variable_accessed

_TABLES_OF_TWO_PARTS = 8  # at least; then two ops of half of them take less time than one


@tf.autograph.experimental.do_not_convert
def lookup_group(lookups: Sequence[Lookup], insert: Insert) -> list[tf.Tensor]:
    """Returns the rows of each lookup, pooled if it has bags.

    Args:
      lookups: list of `Lookup`; several may be of one table.
      insert: bool, or a scalar bool tensor: whether new keys get rows; if not, the output has
        their first values. WITH_GRADIENT: as False, but they get rows when a gradient of the output
        is computed.

    Returns:
      A float32 tensor for each lookup: [num_keys, dim], or [num_bags, dim] with zeros for empty
      bags; differentiable by the tables. If only some outputs are used, the tables of the others
      get gradients of zeros.

    When run, an error of one lookup leaves its table as it was; keys of others may be inserted.

    Raises:
      NotImplementedError: XLA compiles the function that is being traced.
      ValueError: insert is WITH_GRADIENT in eager mode; or it is neither WITH_GRADIENT nor False
        for a table whose history counts keys; or a lookup with a draw or room does not insert.
    """
    lookups = [lookup.inserting(insert) for lookup in lookups]
    if tables_are_dense():
        return [look_up_dense(_read_only(lookup)) for lookup in lookups]
    if lookups and is_within_xla(tf.compat.v1.get_default_graph()):
        raise NotImplementedError(
            f"XLA cannot compile a lookup in the table {lookups[0].table.table_name}: omit "
            "jit_compile=True, or look keys up before the function and pass it the rows"
        )
    for lookup in lookups:
        lookup.new_keys.check(lookup.table)
    outputs: dict[Lookup, tf.Tensor] = {}
    for group in _by_kind(lookups):
        outputs.update(zip(group, _lookup_on_device(group)))
    return [outputs[lookup] for lookup in lookups]


def _read_only(lookup: Lookup) -> Lookup:
    """Returns the lookup with int64 keys."""
    if lookup.new_keys.inserts_when_read:
        raise ValueError(
            f"a lookup in {lookup.table.table_name} inserts keys, which a served graph cannot "
            "do: build it with training=False"
        )
    keys = tf.cast(checked_keys(lookup.table, lookup.keys), tf.int64)
    return dataclasses.replace(lookup, keys=keys)


def _by_kind(lookups: Iterable[Lookup]) -> Collection[list[Lookup]]:
    groups: dict[tuple, list[Lookup]] = {}
    for lookup in lookups:
        table = lookup.table
        kind = table.device, table.placement.is_spread, table.counts_keys
        groups.setdefault(kind, []).append(lookup)
    return groups.values()


def _lookup_on_device(group: list[Lookup]) -> list[tf.Tensor]:
    for lookup in group:
        variable_accessed(lookup.table)
    prepare_for_gradients()
    bags = [x for lookup in group for x in (lookup.row_splits, lookup.weights) if x is not None]
    look_up = _lookup_at_owners if group[0].table.placement.is_spread else _lookup_here
    by_lookup: dict[Lookup, tf.Tensor] = {}
    with tf.device(group[0].table.device):
        parts = _parts(group)
        for part in parts:
            with tf.control_dependencies(bags):  # inserts no keys of invalid bags
                keys, inverse = distinct_keys(part)
            by_lookup.update(zip(part, look_up(part, keys, inverse)))
        outputs = [by_lookup[lookup] for lookup in group]
        # Outputs of one op, so tables of unused ones get gradients of zeros.
        return outputs if len(parts) == 1 else tf.identity_n(outputs)


def _parts(group: list[Lookup]) -> list[list[Lookup]]:
    """Divides a group into lists of lookups whose ops run at the same time.

    A single op leaves threads idle before and after its loops. Lookups of one table stay together,
    in their order. On several ranks a group stays whole.
    """
    by_table: dict[Any, list[Lookup]] = {}
    for lookup in group:
        by_table.setdefault(lookup.table.ref(), []).append(lookup)
    placement, device = group[0].table.placement, group[0].table.device
    if placement.is_spread or tf.executing_eagerly() or "GPU" in device.upper():
        return [group]
    if len(by_table) < _TABLES_OF_TWO_PARTS:
        return [group]
    tables = list(by_table.values())
    middle = len(tables) // 2
    return [list(itertools.chain(*part)) for part in (tables[:middle], tables[middle:])]


def _lookup_here(
    group: Sequence[Lookup], keys: list[tf.Tensor], inverse: list[tf.Tensor]
) -> list[tf.Tensor]:
    """Returns the pooled rows of distinct keys that this rank owns."""
    keys, inverse = _prefetched_distinct(keys, inverse)
    tables = [lookup.table for lookup in group]
    new_keys = [_of_distinct(*item) for item in zip(group, keys, inverse)]
    row_ids, absent_rows = find_rows(tables, keys, new_keys)
    return ops.sok_pool_rows(
        **_handles(group),
        keys=keys,
        row_ids=row_ids,
        absent_rows=absent_rows,
        inverse=inverse,
        row_splits=_row_splits(group),
        weights=_weights(group),
        combiners=_combiners(group),
        **_attributes(group),
    )


def _of_distinct(lookup: Lookup, keys: tf.Tensor, inverse: tf.Tensor) -> NewKeys:
    initial_rows = lookup.new_keys.initial_rows
    if initial_rows is None:
        return lookup.new_keys
    places = first_occurrences(tf.size(keys), inverse)
    return lookup.new_keys.with_initial_rows(initial_rows.at(places))


def _lookup_at_owners(
    group: Sequence[Lookup], keys: list[tf.Tensor], inverse: list[tf.Tensor]
) -> list[tf.Tensor]:
    """Returns the pooled rows of distinct keys, requested of their owners."""
    requested = _request_of_owners(group, keys, inverse)
    return ops.sok_pool_received_rows(
        rows=exchanged_rows(group, requested),
        inverse=requested.replies,
        row_splits=requested.reply_splits,
        weights=requested.reply_weights,
        factors=requested.factors,
        combiners=_combiners(group),
    )


def description_of(group: Sequence[Lookup], details: Iterable[str]) -> tuple[str, str]:
    """Returns the name and description of a group's collective, the same on all ranks."""
    name = "+".join(lookup.table.table_name for lookup in group)
    lines = [
        f"{lookup.table.description()}, wire_dtype {wire_dtype()}, {detail}"
        for lookup, detail in zip(group, details)
    ]
    return name if _has_gradients(group) else f"{name} (read)", "\n".join(lines)


def _description_of_requests(group: Sequence[Lookup]) -> tuple[str, str]:
    return description_of(group, [f"combiner {lookup.combiner}" for lookup in group])


def begin_group(lookups: Iterable[Lookup], insert: Insert) -> tf.Tensor:
    """Begins the collective of the first exchange of `lookup_group`.

    In eager mode, an earlier failure is reported to the other ranks in this exchange.
    """
    lookups = [lookup.inserting(insert) for lookup in lookups]
    return begin_collective(*_description_of_requests(next(iter(_by_kind(lookups)))))


def exchanged_rows(
    group: Sequence[Lookup], requested: ShardedRequest, may_be_sums: bool = False
) -> list[tf.Tensor]:
    """Returns the replies to this rank, a tensor [replies, dim] for each lookup of a group, of
    tables on one device, spread over the same ranks.

    If `may_be_sums`, replies may be sums although the counts do not say so: they travel as sums,
    whatever the dtypes of the tables' rows.
    """
    tables = [lookup.table for lookup in group]
    new_keys = [
        lookup.new_keys.with_initial_rows(
            received_at_owner(lookup.new_keys.initial_rows, lookup.table.table_name, requested, i)
        )
        for i, lookup in enumerate(group)
    ]
    keys = requested.requested_keys
    row_ids, absent_rows = find_rows(tables, keys, new_keys, requested.collective)
    return ops.sok_exchange_rows(
        **_handles(group),
        keys=requested.requested_keys,
        row_ids=row_ids,
        absent_rows=absent_rows,
        inverse=requested.requested_places,
        requested_splits=requested.requested_splits,
        requested_weights=requested.requested_weights,
        requested_counts=requested.requested_counts,
        reply_counts=requested.reply_counts,
        replies=requested.replies,
        collective=requested.collective,
        **_attributes(group),
        **(_sent_as(group) | ({"row_dtypes": []} if may_be_sums else {})),
    )


def _request_of_owners(
    group: Sequence[Lookup], keys: list[tf.Tensor], inverse: list[tf.Tensor]
) -> ShardedRequest:
    """Returns the requests that this rank received, in this step or prefetched."""
    # Owners of initial rows need the key of each reply: they send no sums.
    asked = [lookup.without_bags() if lookup.new_keys.initial_rows else lookup for lookup in group]
    described = _description_of_requests(group)

    def send_request(inputs, collective):
        keys, inverse, row_splits, weights = _in_lists(inputs, len(group))
        return ops.sok_exchange_keys(
            tables=_handles(group)["tables"],
            keys=keys,
            inverse=inverse,
            row_splits=row_splits,
            weights=weights,
            collective=collective,
            combiners=_combiners(asked),
            dims=_dims(group),
            key_bytes=[lookup.table.key_dtype.size for lookup in group],
            has_gradients=_has_gradients(group),
            **_sent_as(group),
        )

    def prefetch_request(inputs, begin):
        collective = begin_collective(*described, op_name="prefetched_lookup", begin=begin)
        return tf.nest.flatten(send_request(inputs, collective))

    inputs = [*keys, *inverse, *_row_splits(asked), *_weights(asked)]
    prefetched = prefetched_request(inputs, prefetch_request)
    names = [lookup.table.table_name for lookup in group]
    collective = begin_collective(*described, tables=names)
    requested = (
        send_request(inputs, collective)
        if prefetched is None
        else _in_lists(prefetched, len(group))
    )
    request = ShardedRequest._make([*requested, collective])
    for i, own in enumerate(group):
        if asked[i] is not own:
            request.reply_splits[i] = _row_splits([own])[0]
            request.reply_weights[i] = _weights([own])[0]
    return request


def _in_lists(tensors: list[tf.Tensor], size: int) -> list[list[tf.Tensor]]:
    return [tensors[begin : begin + size] for begin in range(0, len(tensors), size)]


def _handles(group: Iterable[Lookup]) -> dict[str, list[tf.Tensor]]:
    return {
        "rows": [lookup.table.handle for lookup in group],
        "tables": [lookup.table.table_handle for lookup in group],
    }


def _dims(group: Iterable[Lookup]) -> list[int]:
    return [lookup.table.dim for lookup in group]


def _sent_as(group: Sequence[Lookup]) -> dict[str, list[str]]:
    return {
        "wire_dtypes": [wire_dtype()] * len(group),
        "row_dtypes": [lookup.table.row_dtype.name for lookup in group],
    }


def _has_gradients(group: Sequence[Lookup]) -> bool:
    """Whether the lookup may be trained: `insert` is that of all."""
    return group[0].new_keys.insert is not False


def _attributes(group: Sequence[Lookup]) -> dict[str, Any]:
    """Of the ops that read rows."""
    return {
        "dims": _dims(group),
        "all_keys_have_rows": all(lookup.new_keys.all_get_rows for lookup in group),
        "gradient": group[0].new_keys.gradient_of(group[0].table),
        "with_slots": _has_gradients(group),
    }


def _combiners(group: Iterable[Lookup]) -> list[str]:
    return [lookup.combiner for lookup in group]


def _prefetched_distinct(
    keys: list[tf.Tensor], inverse: list[tf.Tensor]
) -> Sequence[list[tf.Tensor]]:
    """Returns the prefetched (keys, inverse), or the given ones if nothing is prefetched."""
    prefetched = prefetched_request([*keys, *inverse], lambda copies, _: copies)
    return (keys, inverse) if prefetched is None else _in_lists(prefetched, len(keys))


def _row_splits(group: Iterable[Lookup]) -> list[tf.Tensor]:
    none = tf.constant([], tf.int64)
    return [none if lookup.row_splits is None else lookup.row_splits for lookup in group]


def _weights(group: Iterable[Lookup]) -> list[tf.Tensor]:
    none = tf.constant([], tf.float32)
    return [none if lookup.weights is None else lookup.weights for lookup in group]


def distinct_keys(group: Sequence[Lookup]) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Returns ([keys int64], [index of each occurrence's key]), a tensor for each lookup.

    The keys are distinct if the lookup requires it.
    """
    keys = [checked_keys(lookup.table, lookup.keys) for lookup in group]
    inverse: list[tf.Tensor] = [None] * len(group)
    repeated = []  # lookups that need distinct keys
    for i, lookup in enumerate(group):
        if _needs_distinct_keys(lookup):
            repeated.append(i)
        else:
            inverse[i] = tf.range(tf.size(keys[i]))
            keys[i] = tf.cast(keys[i], tf.int64)
    if repeated:
        distinct = ops.sok_distinct_keys([keys[i] for i in repeated], N=len(repeated))
        for i, *found in zip(repeated, *distinct):
            keys[i], inverse[i] = found
    return keys, inverse


def _needs_distinct_keys(lookup: Lookup) -> bool:
    """Whether a lookup needs distinct keys.

    Otherwise finding a repeated key again, in the cache, takes less time than deduplication.
    """
    table, new_keys = lookup.table, lookup.new_keys
    travels = table.placement.is_spread  # each key once
    is_given = new_keys.gives_rows(table) or table.first_value.kind == "preset"
    return new_keys.insert is not False or travels or is_given
