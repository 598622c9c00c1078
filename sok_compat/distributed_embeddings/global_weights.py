# SPDX-License-Identifier: Apache-2.0
"""The whole tables of a DistributedEmbedding, read and written part by part."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from sok_compat.distributed_embeddings.planning.placed_tables import PlacedLayer
from sok_compat.distributed_embeddings.planning.strategy import BY_COLUMNS, BY_ROWS, REPLICATED
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.ranks.allgather_strings import allgather_strings
from sok_compat.runtime.tf_versions import keras, members, variable_of
from sok_compat.tables import Table
from sok_compat.tables.rows.row_writes import write_rows

tf1 = tf.compat.v1

_BLOCK_FLOATS = 1 << 22  # most that are copied at a time: 16 MiB, as fast as larger blocks
_FLOATS_OF_KEY = 4  # a row's key and row id take as much memory


class GlobalWeights:
    """Reads and writes the tables of a layer.

    In graph mode this happens in the default session, with ops that are made once.
    """

    def __init__(self, placed: PlacedLayer) -> None:
        """Makes no ops."""
        self._name, self._strategy, self._tables, self._ranks, self._layers, self._copies = placed
        in_graph = not tf1.executing_eagerly_outside_functions()
        self._graph = tf1.get_default_graph() if in_graph else None
        self._ops: dict[tuple, tuple] = {}  # {purpose: (placeholders, fetch)}

    def read(self, all_ranks: bool) -> list[np.ndarray]:
        """See DistributedEmbedding.get_weights. Rows are fetched by ordinary lookups."""
        wants = all_ranks or self._ranks.rank == 0
        tables: list[Any] = [None] * len(self._strategy.global_configs)
        for number, table in enumerate(self._strategy.table_groups[REPLICATED]):
            tables[table] = self._read(table, [(None, self._copies[number], 0)], wants)
        for table, parts in self._parts_by_columns().items():
            tables[table] = self._read(table, parts, wants)
        for number, table in enumerate(self._strategy.table_groups[BY_ROWS]):
            tables[table] = self._read(table, [(self._tables.by_rows[number], None, 0)], wants)
        return tables if wants else []

    def write(
        self, weights: Sequence[np.ndarray | str | os.PathLike], chunk: int, use_lock: bool
    ) -> None:
        """See DistributedEmbedding.set_weights."""
        arrays = self._opened(weights)
        if chunk < 1:
            raise ValueError(f"chunk must be at least 1, got {chunk}")
        for turn in range(self._ranks.size if use_lock else 1):
            if turn == self._ranks.rank or not use_lock:
                self._write_own(arrays, chunk)
            if use_lock and self._ranks.size > 1:  # the next rank waits here
                allgather_strings("DistributedEmbedding.set_weights", is_patient=True)

    def _parts_by_columns(self) -> dict[int, list[tuple]]:
        """{table: [(Table, layer, first row)]}, in the order of columns.

        The layer is None if there is a Table, which otherwise is None. The first row is that of the
        part in the Table or the layer's variable.
        """
        parts: dict[int, list[tuple]] = {}
        for rank, plan in enumerate(self._strategy.plans):
            for joined, fused in enumerate(plan.fused):
                for one, offset in zip(fused.slices, fused.row_offsets):
                    table = self._tables.by_columns[rank][joined]
                    layer = self._layers[joined] if table is None else None
                    part = one.first_column, (table, layer, offset)
                    of_table = self._strategy.table_groups[BY_COLUMNS][one.table]
                    parts.setdefault(of_table, []).append(part)
        return {
            table: [part for _, part in sorted(of, key=lambda each: each[0])]
            for table, of in parts.items()
        }

    def _read(self, number: int, parts: list[tuple], wants: bool) -> np.ndarray:
        rows, columns = self._strategy.shape(number)

        def values(begin, end):
            if parts[0][0] is None:
                ((_, layer, offset),) = parts
                return _only_weight(layer)[offset + begin : offset + end]
            keys = tf.range(begin, end)
            lookups = [Lookup(table, keys + offset) for table, _, offset in parts]
            return tf.concat(lookup_group(lookups, insert=False), 1)

        read = np.empty((rows, columns) if wants else (0, columns), np.float32)
        for begin, end in _blocks(rows, columns):
            end = end if wants else begin
            read[begin:end] = self._run(("read", number), values, np.int64(begin), np.int64(end))
        return read

    def _opened(self, weights: Sequence[np.ndarray | str | os.PathLike]) -> list[np.ndarray]:
        """The weights as arrays of checked shapes; files are memory-mapped."""
        if len(weights) != len(self._strategy.global_configs):
            raise ValueError(
                f"set_weights of {self._name!r} needs an array for each of its "
                f"{len(self._strategy.global_configs)} tables, got {len(weights)}"
            )
        return [self._opened_one(table, given) for table, given in enumerate(weights)]

    def _opened_one(self, table: int, given: Any) -> np.ndarray:
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

    def _write_own(self, arrays: list[np.ndarray], chunk: int) -> None:
        strategy, rank = self._strategy, self._ranks.rank
        for number, table in enumerate(strategy.table_groups[REPLICATED]):
            self._write_variable(table, self._copies[number], arrays[table], 0, chunk)
        for joined, fused in enumerate(strategy.plans[rank].fused):
            own = self._tables.by_columns[rank][joined]
            for one, offset in zip(fused.slices, fused.row_offsets):
                table = strategy.table_groups[BY_COLUMNS][one.table]
                rows = arrays[table][:, one.first_column : one.first_column + one.num_columns]
                if own is None:
                    layer = self._layers[joined]
                    self._write_variable(table, layer, rows, offset, chunk)
                else:
                    self._write_table(table, own, rows, offset, chunk)
        for number, table in enumerate(strategy.table_groups[BY_ROWS]):
            own = self._tables.by_rows[number]
            begin, end = (own.placement.range_begin(rank + more) for more in (0, 1))
            self._write_table(table, own, arrays[table][begin:end], begin, chunk)

    def _write_table(
        self, number: int, table: Table, rows: np.ndarray, first_key: int, chunk: int
    ) -> None:
        def write(first, part):
            return write_rows(table, first + tf.range(tf.shape(part, tf.int64)[0]), part)

        self._write_blocks(number, write, rows, first_key, chunk)

    def _write_variable(
        self, number: int, layer: keras.layers.Layer, rows: np.ndarray, first_row: int, chunk: int
    ) -> None:
        variable = _only_weight(layer)

        def write(first, part):
            places = first + tf.range(tf.shape(part, tf.int64)[0])
            return tf.raw_ops.ResourceScatterUpdate(
                resource=variable.handle, indices=places, updates=tf.cast(part, variable.dtype)
            )

        self._write_blocks(number, write, rows, first_row, chunk)

    def _write_blocks(
        self, number: int, write: Callable, rows: np.ndarray, first: int, chunk: int
    ) -> None:
        for begin, end in _blocks(rows.shape[0], rows.shape[1], chunk):
            part = np.ascontiguousarray(rows[begin:end], np.float32)
            self._run(("write", number), write, np.int64(first + begin), part)

    def _run(self, purpose: tuple, function: Callable, *values: Any) -> Any:
        """Runs a function of tensors on values, and returns its result as an array.

        Returns None if the function returns an op. In graph mode the ops of a purpose are reused.
        """
        if tf.executing_eagerly():
            result = function(*map(tf.constant, values))
            return result.numpy() if tf.is_tensor(result) else None
        session = tf1.get_default_session()
        if session is None or session.graph is not self._graph:
            raise RuntimeError(
                f"weights of {self._name!r} are read and set in a session of their graph: call "
                "this in `with session.as_default():`"
            )
        if purpose not in self._ops:
            self._ops[purpose] = self._made_ops(self._graph, function, values)
        placeholders, fetch = self._ops[purpose]
        return session.run(fetch, dict(zip(placeholders, values)))

    def _made_ops(self, graph: tf.Graph, function: Callable, values: Sequence[Any]) -> tuple:
        with members.extending(graph):
            placeholders = [
                tf1.placeholder(value.dtype, [None, *value.shape[1:]] if value.shape else [])
                for value in values
            ]
            return placeholders, function(*placeholders)


def _only_weight(layer: keras.layers.Layer) -> tf.Variable:
    weights = layer.weights
    if len(weights) != 1:
        raise ValueError(
            f"{layer.name!r} must have one weight, its table, got {[one.name for one in weights]}"
        )
    return variable_of(weights[0])


def _blocks(rows: int, columns: int, most_floats: int = _BLOCK_FLOATS) -> Iterator[tuple[int, int]]:
    """Yields the first row of each block and the one after its last."""
    step = max(1, min(most_floats, _BLOCK_FLOATS) // (columns + _FLOATS_OF_KEY))
    for begin in range(0, rows, step):
        yield begin, min(begin + step, rows)
