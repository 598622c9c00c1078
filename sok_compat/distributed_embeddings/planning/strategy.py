# SPDX-License-Identifier: Apache-2.0
"""`DistEmbeddingStrategy`: the places of tables, under the names of distributed-embeddings."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from sok_compat.distributed_embeddings.planning.assignment import AUTO, checked_strategy
from sok_compat.distributed_embeddings.planning.chosen_plan import ChosenPlan, choose_plan
from sok_compat.distributed_embeddings.planning.plan import (
    FusedTable,
    RankPlan,
    RowsOfInput,
    cut_columns,
    plan_columns,
)
from sok_compat.distributed_embeddings.planning.workload import TableCosts, Workload
from sok_compat.ranks.identity import Ranks
from sok_compat.tables.placement import Placement

REPLICATED, BY_COLUMNS, BY_ROWS = range(3)  # the groups, in the order of `table_groups`
_ALIKE = (  # settings that joined tables have in common, besides the number of columns
    *("combiner", "embeddings_initializer", "embeddings_regularizer", "activity_regularizer"),
    *("embeddings_constraint", "trainable", "dtype"),
)
_ON_VARIABLES = ("embeddings_regularizer", "embeddings_constraint", "activity_regularizer")
_EMBEDDINGS = ("keras", "tf_keras", "sok_compat")  # packages whose `Embedding` layers are one kind


class DistEmbeddingStrategy:
    """A plan made from the layers' configurations alone, and therefore the same on all ranks.

    API of distributed-embeddings. Each table is in one of three groups: whole on every rank, cut by
    columns (perhaps into a single slice), or cut by rows over all ranks. Sizes are numbers of
    floats. Attributes about tables cut by columns number tables and inputs within that group.

    Attributes:
      strategy: 'basic', 'memory_balanced', 'memory_optimized' or 'auto'; 'basic' with one rank.
      workload: the Workload for counting costs.
      reasons: with 'auto', {table: the reason for its place}; else empty.
      uncut_tables: tables that must be whole, on one rank or on all, because their layers are not
        Embedding, or have a regularizer or a constraint.
      global_configs: the configuration of each table.
      table_groups: [tables whole on every rank, tables cut by columns, tables cut by rows].
      input_groups: the inputs of each group.
      map_groups: for each of these inputs, its table's number in the group.
      rev_group_ids: the position of each input in the three groups put one after the other.
      plans: the RankPlan of each rank; the attributes below are other forms of it.
      table_ids: for each rank, the tables of its slices.
      input_ids_list: for each rank, the inputs that it looks up.
      local_configs: for each rank, the configurations of its joined tables, with `cpu_offload`.
      local_group_list: for each of these, the positions of its slices among the rank's.
      local_weight_offsets: for each of these, the first rows of its slices, and the end.
      local_maps: for each input of a rank, its joined table.
      local_input_offsets: for each input of a rank, the number added to its ids.
      widths_list_flat: the columns of each rank's output for each of its inputs, rank after rank.
      rev_tp_ids: the positions of the outputs in that order, input after input.
      sliced_out_ranges: [input, input + ranks with a slice of it] for inputs of cut tables.
      row_sliced_configs: for each rank, the configurations of its slices of rows.
      row_inputs_offsets: for each rank, the number added to ids of each table cut by rows.
    """

    def __init__(
        self,
        embeddings: Iterable[Any],
        world_size: int,
        strategy: str = "basic",
        input_table_map: Iterable[int] | None = None,
        column_slice_threshold: int | None = None,
        row_slice_threshold: int | None = None,
        data_parallel_threshold: int | None = None,
        gpu_embedding_size: int | None = None,
        workload: Workload | None = None,
        columns_only: bool = False,
        copies_uncut: bool = False,
    ) -> None:
        """Plans.

        Args:
          embeddings: layers with `input_dim` and `output_dim` in their configurations.
          world_size: number of ranks.
          strategy: the assignment of slices to ranks. 'auto', which is new, places tables by the
            workload, so that the busiest rank has the least to do: some whole on every rank, some
            cut by rows, the others cut by columns as needed.
          input_table_map: for each input, the index of its table; None: one input for each table.
          column_slice_threshold: elements; larger tables are cut by columns. None: tables are cut
            if there are fewer than ranks.
          row_slice_threshold: elements; tables of at least as many are cut by rows.
          data_parallel_threshold: elements; tables of at most as many are whole on every rank.
          gpu_embedding_size: most floats of tables cut by columns on a rank's GPU.
          workload: for 'auto' and `costs`; None: Workload().
          columns_only: with 'auto', no table is whole on every rank or cut by rows.
          copies_uncut: whether `uncut_tables` are whole on every rank, whatever their sizes.

        Raises:
          ValueError: an unknown strategy; an input of an unknown table; 'auto' with a threshold, or
            with tables larger than the workload's rank_bytes.
        """
        self.strategy = "basic" if world_size == 1 else checked_strategy(strategy)
        self.world_size = world_size
        embeddings = list(embeddings)
        self.global_configs = [_config_of(embedding) for embedding in embeddings]
        self._kinds = [_kind(*pair) for pair in zip(embeddings, self.global_configs)]
        self.input_table_map = (
            list(range(len(self.global_configs)))
            if input_table_map is None
            else _checked_map(input_table_map, len(self.global_configs))
        )
        self.column_slice_threshold = column_slice_threshold
        self.row_slice_threshold = row_slice_threshold
        self.data_parallel_threshold = data_parallel_threshold
        self.gpu_embedding_size = gpu_embedding_size
        self.workload = workload or Workload()
        self.uncut_tables = [i for i in range(len(self._kinds)) if self._is_uncut(i)]
        self._chosen: ChosenPlan | None = (
            self._choose(columns_only) if self.strategy == AUTO else None
        )
        self.reasons = self._chosen.reasons if self._chosen else {}
        self._group_tables(copied=self.uncut_tables if copies_uncut else ())
        self._cut_rows()
        self._cut_columns()
        self._order_outputs()

    def _is_uncut(self, table: int) -> bool:
        kind, config = self._kinds[table][0], self.global_configs[table]
        return kind != "Embedding" or any(config.get(key) for key in _ON_VARIABLES)

    def config_of_input(self, i: int) -> dict[str, Any]:
        """Returns the configuration of an input's table."""
        return self.global_configs[self.input_table_map[i]]

    def shape(self, table: int) -> tuple[int, int]:
        """Returns (rows, columns) of a table."""
        config = self.global_configs[table]
        return config["input_dim"], config["output_dim"]

    def costs(self) -> list[TableCosts]:
        """Returns the TableCosts of each table, by the workload."""
        hotness = self.workload.hotness_of_inputs(len(self.input_table_map))
        of_tables: list[list[float]] = [[] for _ in self.global_configs]
        for table, of_input in zip(self.input_table_map, hotness):
            of_tables[table].append(of_input)
        return [
            TableCosts(
                self.shape(table),
                of_tables[table],
                config.get("combiner") is not None,
                self.world_size,
                self.workload,
            )
            for table, config in enumerate(self.global_configs)
        ]

    def rows_of_input(
        self, i: int, layer_name: str, first_row: int = 0, is_joined: bool = False
    ) -> RowsOfInput | None:
        """Returns the RowsOfInput of an input.

        Returns None if the table's own layer is called, to which ids that are not rows may have a
        meaning.

        Args:
          i: the input.
          layer_name: for messages.
          first_row: first row of the input's table in the joined table.
          is_joined: whether the table is joined with others.
        """
        table = self.input_table_map[i]
        if self._kinds[table][0] != "Embedding" and not is_joined:
            return None
        config = self.global_configs[table]
        called = f"{layer_name}: the table {table} ({config.get('name')}) of input {i}"
        return RowsOfInput(called, config["input_dim"], first_row)

    def _choose(self, columns_only: bool) -> ChosenPlan:
        thresholds = {
            "column_slice_threshold": self.column_slice_threshold,
            "row_slice_threshold": self.row_slice_threshold,
            "data_parallel_threshold": self.data_parallel_threshold,
        }
        given = [name for name, threshold in thresholds.items() if threshold is not None]
        if given:
            raise ValueError(f"strategy 'auto' chooses by the workload: leave out {given}")
        return choose_plan(
            self.costs(),
            self.world_size,
            self.uncut_tables,
            columns_only,
            self.workload.rank_bytes,
        )

    def _group_tables(self, copied: Container[int]) -> None:
        self.table_groups: list[list[int]] = [[], [], []]
        for table in range(len(self.global_configs)):
            self.table_groups[self._group_of(table, copied)].append(table)
        self.input_groups: list[list[int]] = []
        self.map_groups: list[list[int]] = []
        for tables in self.table_groups:
            inputs = [i for i, table in enumerate(self.input_table_map) if table in tables]
            self.input_groups.append(inputs)
            self.map_groups.append([tables.index(self.input_table_map[i]) for i in inputs])
        self.rev_group_ids = _places([i for inputs in self.input_groups for i in inputs])

    def _group_of(self, table: int, copied: Container[int]) -> int:
        if self._chosen is not None:
            groups = self._chosen.copied, self._chosen.by_columns, self._chosen.by_rows
            return next(group for group, tables in enumerate(groups) if table in tables)
        rows, columns = self.shape(table)
        if table in copied:
            return REPLICATED
        if self.data_parallel_threshold and rows * columns <= self.data_parallel_threshold:
            return REPLICATED
        if self.row_slice_threshold and rows * columns >= self.row_slice_threshold:
            return BY_ROWS
        return BY_COLUMNS

    def _cut_rows(self) -> None:
        tables = self.table_groups[BY_ROWS]
        ranks = Ranks(0, self.world_size)
        placements = [Placement.by_range(ranks, self.shape(table)[0]) for table in tables]
        self.row_sliced_configs: list[list[dict[str, Any]]] = []
        self.row_inputs_offsets: list[list[int]] = []
        for rank in range(self.world_size):
            begins, ends = (
                [placement.range_begin(at) for placement in placements] for at in (rank, rank + 1)
            )
            self.row_inputs_offsets.append([-begin for begin in begins])
            self.row_sliced_configs.append([
                {**self.global_configs[table], "input_dim": end - begin}
                for table, begin, end in zip(tables, begins, ends)
            ])  # fmt: skip

    def _cut_columns(self) -> None:
        tables = self.table_groups[BY_COLUMNS]
        shapes = [self.shape(table) for table in tables]
        if self._chosen is not None:
            cuts = self._chosen.cuts
        else:
            cuts = cut_columns(shapes, self.world_size, self.strategy, self.column_slice_threshold)
        self.plans = plan_columns(
            shapes, cuts, self.gpu_embedding_size, [self._kinds[table] for table in tables]
        )
        self.table_ids = [[one.table for one in plan.slices] for plan in self.plans]
        self.local_group_list = [
            [list(fused.positions) for fused in plan.fused] for plan in self.plans
        ]
        self.local_weight_offsets = [
            [fused.row_offsets for fused in plan.fused] for plan in self.plans
        ]
        self.local_configs = [
            [self._joined_config(fused) for fused in plan.fused] for plan in self.plans
        ]
        places = [[plan.place_of(at) for at in self._positions(plan)] for plan in self.plans]
        self.local_maps = [[index for index, _ in of_rank] for of_rank in places]
        self.local_input_offsets = [[offset for _, offset in of_rank] for of_rank in places]

    def _joined_config(self, fused: FusedTable) -> dict[str, Any]:
        first = self.global_configs[self.table_groups[BY_COLUMNS][fused.slices[0].table]]
        sizes = {"input_dim": fused.num_rows, "output_dim": fused.num_columns}
        return {**first, **sizes, "cpu_offload": fused.on_host}

    def _positions(self, plan: RankPlan) -> list[int]:
        """For each input that the rank looks up, the position of its slice."""
        return [at for at, one in enumerate(plan.slices) for _ in self._inputs_of(one.table)]

    def _inputs_of(self, table: int) -> list[int]:
        """The inputs of a table cut by columns, numbered within that group."""
        return [i for i, of in enumerate(self.map_groups[BY_COLUMNS]) if of == table]

    def _order_outputs(self) -> None:
        self.input_ids_list = [
            [i for table in tables for i in self._inputs_of(table)] for tables in self.table_ids
        ]
        self.widths_list_flat = [
            plan.slices[at].num_columns for plan in self.plans for at in self._positions(plan)
        ]
        inputs = [i for of_rank in self.input_ids_list for i in of_rank]
        self.rev_tp_ids = sorted(range(len(inputs)), key=inputs.__getitem__)
        slices = [one for plan in self.plans for one in plan.slices]
        cut = {one.table for one in slices if one.num_merged > 1}  # even if one rank has all slices
        self.sliced_out_ranges = [
            [i, i + inputs.count(i)]
            for i, table in enumerate(self.map_groups[BY_COLUMNS])
            if table in cut or inputs.count(i) > 1
        ]


def _config_of(embedding: Any) -> dict[str, Any]:
    config = embedding.get_config()
    missing = [key for key in ("input_dim", "output_dim") if key not in config]
    if missing:
        raise ValueError(
            f"the configuration of {type(embedding).__name__} has no {' and no '.join(missing)}: "
            "a plan needs both"
        )
    return config


def _kind(embedding: Any, config: dict[str, Any]) -> tuple:
    """Only tables of one kind are joined; joining others would lose a setting of one of them."""
    layer = type(embedding)
    is_known = layer.__name__ == "Embedding" and layer.__module__.split(".")[0] in _EMBEDDINGS
    return "Embedding" if is_known else layer, *(repr(config.get(key)) for key in _ALIKE)


def _checked_map(input_table_map: Iterable[int], num_tables: int) -> list[int]:
    input_table_map = list(input_table_map)
    if any(not 0 <= table < num_tables for table in input_table_map):
        raise ValueError(
            f"Wrong input initializing input/map groups. input_table_map {input_table_map} must "
            f"have indices of the {num_tables} tables"
        )
    return input_table_map


def _places(order: list[int]) -> list[int]:
    """The position of each of 0..n-1 in `order`."""
    return sorted(range(len(order)), key=order.__getitem__)
