# SPDX-License-Identifier: Apache-2.0
"""The whole tables of a DistributedEmbedding, read and written part by part."""

import os

import numpy as np
import tensorflow as tf

from sok_compat.distributed_embeddings.strategy import BY_COLUMNS, BY_ROWS, REPLICATED
from sok_compat.lookup.group import Lookup, lookup_group
from sok_compat.runtime.horovod_ranks import active_horovod
from sok_compat.tables.row_writes import write_rows

_READ_FLOATS = 1 << 24  # at a time, of a table


def read_tables(layer, ranks, all_ranks):
    """See DistributedEmbedding.get_weights. Rows come by the lookups' own exchange."""
    strategy = layer.strategy
    wants = all_ranks or ranks.rank == 0
    tables = [None] * len(strategy.global_configs)
    for number, table in enumerate(strategy.table_groups[REPLICATED]):
        tables[table] = layer.dp_layers[number].get_weights()[0]
    for table, parts in _parts_by_columns(layer).items():
        tables[table] = _read(strategy.shape(table), parts, wants)
    for number, table in enumerate(strategy.table_groups[BY_ROWS]):
        parts = [(layer._tables.by_rows[number], None, 0, strategy.shape(table)[1])]
        tables[table] = _read(strategy.shape(table), parts, wants)
    return tables if wants else []


def _parts_by_columns(layer):
    """{table: [(Table, the layer where there is none, first row in it, columns)]}, in the order of
    columns."""
    strategy, parts = layer.strategy, {}
    for rank, plan in enumerate(strategy.plans):
        for joined, fused in enumerate(plan.fused):
            for one, offset in zip(fused.slices, fused.row_offsets):
                table = layer._tables.by_columns[rank][joined]
                of_variable = layer.local_embedding_layers[joined] if table is None else None
                part = one.first_column, (table, of_variable, offset, one.num_columns)
                parts.setdefault(strategy.table_groups[BY_COLUMNS][one.table], []).append(part)
    return {table: [part for _, part in sorted(of, key=_first)] for table, of in parts.items()}


def _first(pair):
    return pair[0]


def _read(shape, parts, wants):
    rows, columns = shape
    if parts[0][0] is None:
        ((_, layer, offset, _),) = parts
        return layer.get_weights()[0][offset : offset + rows]
    read = np.empty(shape if wants else (0, columns), np.float32)
    step = max(1, _READ_FLOATS // columns)
    for begin in range(0, rows, step):
        keys = tf.range(begin, min(begin + step, rows), dtype=tf.int64)
        keys = keys if wants else keys[:0]
        lookups = [Lookup(table, keys + offset) for table, _, offset, _ in parts]
        values = tf.concat(lookup_group(lookups, insert=False), 1).numpy()
        read[begin : begin + len(values)] = values
    return read


def write_tables(layer, ranks, weights, chunk, use_lock):
    """See DistributedEmbedding.set_weights."""
    arrays = _opened(layer, weights)
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, got {chunk}")
    if not use_lock:
        _write_own(layer, ranks, arrays, chunk)
        return
    horovod = active_horovod()
    for turn in range(ranks.size):
        if turn == ranks.rank:
            _write_own(layer, ranks, arrays, chunk)
        if ranks.size > 1:
            horovod.broadcast(tf.zeros([]), turn)  # nobody goes on before


def _opened(layer, weights):
    """Arrays of the right shapes; of files, maps."""
    strategy = layer.strategy
    if len(weights) != len(strategy.global_configs):
        raise ValueError(
            f"set_weights of {layer.name!r} needs an array for each of its "
            f"{len(strategy.global_configs)} tables, got {len(weights)}"
        )
    arrays = []
    for table, given in enumerate(weights):
        is_path = isinstance(given, (str, os.PathLike))
        array = np.load(given, mmap_mode="r") if is_path else np.asarray(given)
        if array.shape != strategy.shape(table):
            name = strategy.global_configs[table].get("name")
            raise ValueError(
                f"set_weights of {layer.name!r}: table {table} ({name}) has the shape "
                f"{strategy.shape(table)}, got {array.shape}"
            )
        arrays.append(array)
    return arrays


def _write_own(layer, ranks, arrays, chunk):
    strategy = layer.strategy
    for number, table in enumerate(strategy.table_groups[REPLICATED]):
        layer.dp_layers[number].set_weights([arrays[table]])
    for joined, fused in enumerate(strategy.plans[ranks.rank].fused):
        cut = [strategy.table_groups[BY_COLUMNS][one.table] for one in fused.slices]
        own = layer._tables.by_columns[ranks.rank][joined]
        if own is None:
            layer.local_embedding_layers[joined].set_weights(
                [np.concatenate([arrays[table] for table in cut])]
            )
            continue
        for one, offset, table in zip(fused.slices, fused.row_offsets, cut):
            columns = slice(one.first_column, one.first_column + one.num_columns)
            _write(own, arrays[table][:, columns], offset, chunk)
    for number, table in enumerate(strategy.table_groups[BY_ROWS]):
        own = layer._tables.by_rows[number]
        begin, end = (own.placement.range_begin(ranks.rank + more) for more in (0, 1))
        _write(own, arrays[table][begin:end], begin, chunk)


def _write(table, rows, first_key, chunk):
    step = max(1, chunk // rows.shape[1])
    for begin in range(0, len(rows), step):
        part = np.ascontiguousarray(rows[begin : begin + step], np.float32)
        keys = tf.range(first_key + begin, first_key + begin + len(part), dtype=tf.int64)
        write_rows(table, keys, part)
