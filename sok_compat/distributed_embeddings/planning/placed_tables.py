# SPDX-License-Identifier: Apache-2.0
"""The tables that a plan cuts, placed on their ranks."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from sok_compat.distributed_embeddings.planning.plan import FusedTable
from sok_compat.distributed_embeddings.planning.strategy import (
    BY_COLUMNS,
    BY_ROWS,
    DistEmbeddingStrategy,
)
from sok_compat.ranks.identity import Ranks
from sok_compat.runtime.devices import can_use_gpus
from sok_compat.runtime.tf_versions import keras_3
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.tables import Placement, Table
from sok_compat.tables.first_value import FirstValue, Initializer, parse_initializer
from sok_compat.tables.slots.keras_3_tables import TableVariable
from sok_compat.tables.stored.description import PARTS
from sok_compat.tables.stored.saved_part import SavedPart
from sok_compat.tables.stored.storage import Storage

_OF_TWO_BYTES = ("bfloat16", "float16")


class TableLayer(keras.layers.Layer):
    """A table as a sub-layer of DistributedEmbedding, with its weight and configuration.

    Attributes:
      embeddings: the Table.
    """

    def __init__(self, config: dict[str, Any], table: Table) -> None:
        super().__init__(trainable=config.get("trainable", True), autocast=False)
        self._config = config
        self.embeddings = table
        if keras_3 is not None:
            self.rows = TableVariable(table)
            self.rows.de_local = True
        self.built = True

    def get_config(self) -> dict[str, Any]:
        """Returns the configuration of the layers whose table this is."""
        return dict(self._config)


class PlacedTables:
    """All tables of all ranks that a plan cuts.

    Not a Keras object: the tables of other ranks have no rows here, and are not weights of this
    rank.

    Attributes:
      by_columns: for each rank, a Table for each of its joined tables; None if the table is on a
        variable of its own layer, which is called.
      by_rows: a Table for each table that is cut by rows.
    """

    def __init__(
        self,
        strategy: DistEmbeddingStrategy,
        initializers: Sequence[Any],
        ranks: Ranks,
        on_variables: Container[int] = (),
    ) -> None:
        """Makes the tables, in the same order on all ranks."""
        self._strategy, self._initializers, self._ranks = strategy, initializers, ranks
        self.by_columns: list[list[Any]] = [
            [
                None if self._tables_of(fused)[0] in on_variables else self._joined(rank, n, fused)
                for n, fused in enumerate(plan.fused)
            ]
            for rank, plan in enumerate(strategy.plans)
        ]
        self.by_rows = [self._spread(table) for table in strategy.table_groups[BY_ROWS]]

    def trained(self) -> list[tuple[Table, int | None]]:
        """Returns [(Table, its rank)] of the tables that are looked up and trained.

        The rank is None if all ranks have parts of the table.
        """
        found: list[tuple[Any, int | None]] = []
        for rank, tables in enumerate(self.by_columns):
            looked_up = {*self._strategy.local_maps[rank]}
            found += [(table, rank) for i, table in enumerate(tables) if i in looked_up]
        looked_up = {*self._strategy.map_groups[BY_ROWS]}
        found += [(table, None) for i, table in enumerate(self.by_rows) if i in looked_up]
        return [(table, rank) for table, rank in found if table is not None and table.trainable]

    def _tables_of(self, fused: FusedTable) -> list[int]:
        return [self._strategy.table_groups[BY_COLUMNS][one.table] for one in fused.slices]

    def _joined(self, rank: int, number: int, fused: FusedTable) -> Table:
        config = self._strategy.local_configs[rank][number]
        return self._table(
            f"rank{rank}_embeddings{number}",
            config,
            fused.num_rows,
            self._first_value(fused),
            Placement.on_one_rank(self._ranks, rank),
            self.parts_of(fused),
            config["cpu_offload"],
        )

    def parts_of(self, fused: FusedTable) -> tuple[SavedPart, ...]:
        """Returns the SavedPart of each slice."""
        return tuple(
            SavedPart(
                _title(table), self._strategy.shape(table), 0, one.num_rows, one.first_column, first
            )
            for table, one, first in zip(self._tables_of(fused), fused.slices, fused.row_offsets)
        )

    def part_of_copy(self, table: int) -> tuple[SavedPart, ...]:
        """Returns the one SavedPart of a table that is whole."""
        shape = self._strategy.shape(table)
        return (SavedPart(_title(table), shape, 0, shape[0], 0, 0),)

    def _part_of_rows(self, table: int, placement: Placement) -> tuple[SavedPart, ...]:
        begin, end = (placement.range_begin(self._ranks.rank + more) for more in (0, 1))
        shape = self._strategy.shape(table)
        return (SavedPart(_title(table), shape, begin, end - begin, 0, begin),)

    def _spread(self, table: int) -> Table:
        rows, columns = self._strategy.shape(table)
        placement = Placement.by_range(self._ranks, rows)
        first = parse_initializer(self._initializers[table], [rows, columns], use_hash_index=False)
        capacity = placement.range_begin(1)  # rank 0 has the most rows
        if first.kind == "preset":
            begin = placement.range_begin(self._ranks.rank)
            whole: Any = first.initializer

            def rows_of_rank(shape, dtype):
                mine = whole([rows, columns], dtype=dtype)[begin : begin + shape[0]]
                return tf.pad(mine, [[0, shape[0] - tf.shape(mine)[0]], [0, 0]])

            first = FirstValue("preset", initializer=rows_of_rank)
        config = self._strategy.global_configs[table]
        parts = self._part_of_rows(table, placement)
        return self._table(f"rows_of_embeddings{table}", config, capacity, first, placement, parts)

    def _table(self, name, config, capacity, first, placement, parts, on_host=False):
        with tf.device("GPU:0" if can_use_gpus() and not on_host else "CPU:0"):
            table = Table(
                capacity,
                config["output_dim"],
                first,
                row_dtype=_row_dtype(config),
                use_hash_index=False,
                name=name,
                trainable=config.get("trainable", True),
                placement=placement,
                storage=Storage(parts=parts, described={"layout": PARTS}),
            )
        table.de_local = True  # distributed-embeddings' mark of a rank's own variables
        return table

    def _first_value(self, fused: FusedTable) -> FirstValue:
        """The first value of a joined table; initializers get the shape of each whole table."""
        tables = self._tables_of(fused)
        shapes = [list(self._strategy.shape(table)) for table in tables]
        initializers = [self._initializers[table] for table in tables]
        firsts = [
            parse_initializer(initializer, shape, use_hash_index=False)
            for initializer, shape in zip(initializers, shapes)
        ]
        if firsts[0].kind != "preset" and all(first == firsts[0] for first in firsts):
            return firsts[0]

        def rows(shape, dtype):
            del shape
            parts = []
            for one, initializer, whole in zip(fused.slices, initializers, shapes):
                columns = slice(one.first_column, one.first_column + one.num_columns)
                parts.append(tf.cast(_fresh(initializer)(whole, dtype=dtype), dtype)[:, columns])
            return tf.concat(parts, 0)

        return FirstValue("preset", initializer=rows)


class PlacedLayer(NamedTuple):
    """What reads, writes and saves a DistributedEmbedding; no reference to the layer itself.

    name: the layer's, the same on all ranks.
    layers: those of this rank's joined tables; those on variables are called.
    copies: those of the tables that are whole on every rank.
    """

    name: str
    strategy: DistEmbeddingStrategy
    tables: PlacedTables
    ranks: Ranks
    layers: list[keras.layers.Layer]
    copies: list[keras.layers.Layer]


def _row_dtype(config: dict[str, Any]) -> tf.DType | None:
    """The dtype of rows of two bytes if the layer's policy has such variables; else the default.

    Mixed policies compute in two bytes, with variables of four.
    """
    name = keras.layers.Layer(dtype=config.get("dtype")).variable_dtype
    return tf.as_dtype(name) if name in _OF_TWO_BYTES else None


def _title(table: int) -> str:
    """The name of a table in checkpoints: its number among the layers given."""
    return f"{table}"


def _fresh(initializer: Initializer) -> Any:
    """A copy that draws other numbers; an unseeded Keras initializer repeats its own."""
    initializer = keras.initializers.get(initializer)
    if isinstance(initializer, keras.initializers.Initializer):
        return type(initializer).from_config(initializer.get_config())
    return initializer
