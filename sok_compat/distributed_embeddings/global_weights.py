# SPDX-License-Identifier: Apache-2.0
"""The whole tables of a DistributedEmbedding, read and written part by part."""

import os

import numpy as np
import tensorflow as tf

from sok_compat.distributed_embeddings.strategy import BY_COLUMNS, BY_ROWS, REPLICATED
from sok_compat.lookup.group import Lookup, lookup_group
from sok_compat.runtime.shared_texts import share_text
from sok_compat.tables.row_writes import write_rows

tf1 = tf.compat.v1

_READ_FLOATS = 1 << 24  # at a time, of a table


class GlobalWeights:
    """What reads and writes the tables of a layer: at once in eager mode; in graph mode in the
    default session, with ops that are made once."""

    def __init__(self, layer, tables, ranks):
        """Makes no ops.

        Args:
          layer: the DistributedEmbedding, with its layers; it is not kept.
          tables: its PlacedTables.
          ranks: the Ranks.
        """
        self._name, self._strategy, self._tables, self._ranks = (
            layer.name, layer.strategy, tables, ranks,
        )  # fmt: skip
        self._dp_layers, self._local_layers = [*layer.dp_layers], [*layer.local_embedding_layers]
        self._ops = {}  # {what for: (placeholders, what a session runs)}

    def read(self, all_ranks):
        """See DistributedEmbedding.get_weights. Rows come by the lookups' own exchange."""
        wants = all_ranks or self._ranks.rank == 0
        tables = [None] * len(self._strategy.global_configs)
        for number, table in enumerate(self._strategy.table_groups[REPLICATED]):
            tables[table] = self._value_of(self._dp_layers[number], table, 0)
        for table, parts in self._parts_by_columns().items():
            tables[table] = self._read(table, parts, wants)
        for number, table in enumerate(self._strategy.table_groups[BY_ROWS]):
            tables[table] = self._read(table, [(self._tables.by_rows[number], None, 0)], wants)
        return tables if wants else []

    def write(self, weights, chunk, use_lock):
        """See DistributedEmbedding.set_weights."""
        arrays = self._opened(weights)
        if chunk < 1:
            raise ValueError(f"chunk must be at least 1, got {chunk}")
        for turn in range(self._ranks.size if use_lock else 1):
            if turn == self._ranks.rank or not use_lock:
                self._write_own(arrays, chunk)
            if use_lock and self._ranks.size > 1:  # nobody goes on before
                share_text("DistributedEmbedding.set_weights", is_patient=True)

    def _parts_by_columns(self):
        """{table: [(Table, the layer where there is none, first row in it)]}, in the order of
        columns."""
        parts = {}
        for rank, plan in enumerate(self._strategy.plans):
            for joined, fused in enumerate(plan.fused):
                for one, offset in zip(fused.slices, fused.row_offsets):
                    table = self._tables.by_columns[rank][joined]
                    layer = self._local_layers[joined] if table is None else None
                    part = one.first_column, (table, layer, offset)
                    of_table = self._strategy.table_groups[BY_COLUMNS][one.table]
                    parts.setdefault(of_table, []).append(part)
        return {table: [part for _, part in sorted(of, key=_first)] for table, of in parts.items()}

    def _read(self, number, parts, wants):
        rows, columns = self._strategy.shape(number)
        if parts[0][0] is None:
            ((_, layer, offset),) = parts
            return self._value_of(layer, number, offset)

        def values(begin, end):
            keys = tf.range(begin, end)
            lookups = [Lookup(table, keys + offset) for table, _, offset in parts]
            return tf.concat(lookup_group(lookups, insert=False), 1)

        read = np.empty((rows, columns) if wants else (0, columns), np.float32)
        step = max(1, _READ_FLOATS // columns)
        for begin in range(0, rows, step):
            end = min(begin + step, rows) if wants else begin
            part = self._run(("read", number), values, np.int64(begin), np.int64(end))
            read[begin:end] = part
        return read

    def _value_of(self, layer, number, offset):
        """A table's rows in the variable of a layer."""
        rows, _ = self._strategy.shape(number)
        variable = _only_weight(layer)
        return self._run(("read", number), lambda: variable[offset : offset + rows])

    def _opened(self, weights):
        """Arrays of the right shapes; of files, maps."""
        if len(weights) != len(self._strategy.global_configs):
            raise ValueError(
                f"set_weights of {self._name!r} needs an array for each of its "
                f"{len(self._strategy.global_configs)} tables, got {len(weights)}"
            )
        return [self._opened_one(table, given) for table, given in enumerate(weights)]

    def _opened_one(self, table, given):
        is_path = isinstance(given, (str, os.PathLike))
        array = np.load(given, mmap_mode="r") if is_path else np.asarray(given)
        name = self._strategy.global_configs[table].get("name")
        what = f"set_weights of {self._name!r}: table {table} ({name})"
        if not isinstance(array, np.ndarray) or not np.issubdtype(array.dtype, np.number):
            raise ValueError(
                f"{what} needs an array of numbers, or a .npy file of one, got {given}"
            )
        if array.shape != self._strategy.shape(table):
            raise ValueError(
                f"{what} has the shape {self._strategy.shape(table)}, got {array.shape}"
            )
        return array

    def _write_own(self, arrays, chunk):
        strategy, rank = self._strategy, self._ranks.rank
        for number, table in enumerate(strategy.table_groups[REPLICATED]):
            self._write_variable(table, self._dp_layers[number], arrays[table], 0, chunk)
        for joined, fused in enumerate(strategy.plans[rank].fused):
            own = self._tables.by_columns[rank][joined]
            for one, offset in zip(fused.slices, fused.row_offsets):
                table = strategy.table_groups[BY_COLUMNS][one.table]
                rows = arrays[table][:, one.first_column : one.first_column + one.num_columns]
                if own is None:
                    layer = self._local_layers[joined]
                    self._write_variable(table, layer, rows, offset, chunk)
                else:
                    self._write_table(table, own, rows, offset, chunk)
        for number, table in enumerate(strategy.table_groups[BY_ROWS]):
            own = self._tables.by_rows[number]
            begin, end = (own.placement.range_begin(rank + more) for more in (0, 1))
            self._write_table(table, own, arrays[table][begin:end], begin, chunk)

    def _write_table(self, number, table, rows, first_key, chunk):
        def write(first, part):
            return write_rows(table, first + tf.range(tf.shape(part, tf.int64)[0]), part)

        self._write_blocks(number, write, rows, first_key, chunk)

    def _write_variable(self, number, layer, rows, first_row, chunk):
        variable = _only_weight(layer)

        def write(first, part):
            places = first + tf.range(tf.shape(part, tf.int64)[0])
            return tf.raw_ops.ResourceScatterUpdate(
                resource=variable.handle, indices=places, updates=tf.cast(part, variable.dtype)
            )

        self._write_blocks(number, write, rows, first_row, chunk)

    def _write_blocks(self, number, write, rows, first, chunk):
        step = max(1, chunk // rows.shape[1])
        for begin in range(0, len(rows), step):
            part = np.ascontiguousarray(rows[begin : begin + step], np.float32)
            self._run(("write", number), write, np.int64(first + begin), part)

    def _run(self, what_for, function, *values):
        """The array, if it gives one, that a function of tensors gives for values."""
        if tf.executing_eagerly():
            result = function(*map(tf.constant, values))
            return result.numpy() if tf.is_tensor(result) else None
        session = tf1.get_default_session()
        if session is None:
            raise RuntimeError(
                f"weights of {self._name!r} are read and set in a session: call this in "
                "`with session.as_default():`"
            )
        if what_for not in self._ops:
            self._ops[what_for] = self._made_ops(session.graph, function, values)
        placeholders, fetch = self._ops[what_for]
        return session.run(fetch, dict(zip(placeholders, values)))

    def _made_ops(self, graph, function, values):
        if graph.finalized:
            raise RuntimeError(
                f"the graph is final, and has no ops yet for the weights of {self._name!r}: "
                "call get_weights or set_weights once before the session that makes it so"
            )
        with graph.as_default():
            placeholders = [
                tf1.placeholder(value.dtype, [None, *value.shape[1:]] if value.shape else [])
                for value in values
            ]
            return placeholders, function(*placeholders)


def _only_weight(layer):
    weights = layer.weights
    if len(weights) != 1:
        raise ValueError(
            f"{layer.name!r} must have one weight, its table, got {[one.name for one in weights]}"
        )
    return weights[0]


def _first(pair):
    return pair[0]
