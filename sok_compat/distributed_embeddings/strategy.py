# SPDX-License-Identifier: Apache-2.0
"""`DistEmbeddingStrategy`: which table is where, under the names of distributed-embeddings."""

from sok_compat.distributed_embeddings.assignment import AUTO, checked_strategy
from sok_compat.distributed_embeddings.chosen_plan import choose_plan
from sok_compat.distributed_embeddings.plan import cut_columns, plan_columns
from sok_compat.distributed_embeddings.workload import TableCosts, Workload

REPLICATED, BY_COLUMNS, BY_ROWS = range(3)  # the groups, in the order of `table_groups`
_ALIKE = (  # what tables must have alike to be joined, besides their columns
    *("combiner", "embeddings_initializer", "embeddings_regularizer", "activity_regularizer"),
    *("embeddings_constraint", "trainable", "dtype"),
)
_ON_VARIABLES = ("embeddings_regularizer", "embeddings_constraint", "activity_regularizer")
_EMBEDDINGS = ("keras", "tf_keras", "sok_compat")  # packages whose layers of that name are one kind


class DistEmbeddingStrategy:
    """A plan, made of the layers' configurations alone: the same on all ranks.

    Tables are of one of three groups: whole on every rank, cut by columns (one slice may be all of
    them), cut by rows over all ranks. Sizes are numbers of floats. Attributes of tables cut by
    columns go by the numbers of tables and inputs within that group.

    Attributes:
      strategy: 'basic', 'memory_balanced', 'memory_optimized' or 'auto'; with one rank 'basic'.
      workload: the Workload that costs are counted with.
      reasons: with 'auto', {table: why it is where it is}; else empty.
      uncut_tables: those that can only be whole on one rank or on all: their layers are no
        Embedding, or have a regularizer or a constraint.
      global_configs: the configuration of each table.
      table_groups: [tables whole on every rank, cut by columns, cut by rows].
      input_groups: the inputs of each group; map_groups: for these, which table of the group.
      rev_group_ids: where each input is among those of the three groups, one after the other.
      plans: the RankPlan of each rank, of which the attributes that follow are other forms.
      table_ids: for each rank, the tables that it has slices of.
      input_ids_list: for each rank, the inputs that it looks up.
      local_configs: for each rank, the configurations of its joined tables, with `cpu_offload`.
      local_group_list: for each of these, which of the rank's slices it has.
      local_weight_offsets: and their first rows, with the end.
      local_maps: for each input of a rank, which joined table it is of.
      local_input_offsets: and what is added to its ids.
      widths_list_flat: the columns that each input of each rank gives, rank after rank.
      rev_tp_ids: where the outputs are in that order, input after input.
      sliced_out_ranges: [input, input + ranks that have a slice of it] of inputs of tables that are
        cut.
      row_sliced_configs: for each rank, the configurations of its slices of rows.
      row_inputs_offsets: for each rank, what is added to ids of each table that is cut by rows.
    """

    def __init__(
        self,
        embeddings,
        world_size,
        strategy="basic",
        input_table_map=None,
        column_slice_threshold=None,
        row_slice_threshold=None,
        data_parallel_threshold=None,
        gpu_embedding_size=None,
        workload=None,
        columns_only=False,
    ):
        """Plans.

        Args:
          embeddings: layers with `input_dim` and `output_dim` in their configurations.
          world_size: number of ranks.
          strategy: how slices are given to ranks. 'auto', which distributed-embeddings does not
            have, chooses by a workload which tables are whole on every rank, which are cut by rows,
            and how the others are cut and placed: so that the busiest rank has least to do.
          input_table_map: for each input, the index of its table; None: one input for each table.
          column_slice_threshold: a larger table is cut by columns; None: where there are fewer
            tables than ranks.
          row_slice_threshold: a table of at least this size is cut by rows.
          data_parallel_threshold: a table of at most this size is whole on every rank.
          gpu_embedding_size: most floats of a rank that are on its GPU, of tables cut by columns.
          workload: the Workload; None: Workload().
          columns_only: of 'auto': no table is whole on every rank or cut by rows.

        Raises:
          ValueError: an unknown strategy, or an input of a table that there is not; 'auto' with a
            threshold, or tables that are more than the workload's rank_bytes.
        """
        self.strategy = "basic" if world_size == 1 else checked_strategy(strategy)
        self.world_size = world_size
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
        self.uncut_tables = [
            table
            for table, (kind, *_) in enumerate(self._kinds)
            if kind != "Embedding" or any(self.global_configs[table].get(k) for k in _ON_VARIABLES)
        ]
        self._chosen = self._choose(columns_only) if self.strategy == AUTO else None
        self.reasons = self._chosen.reasons if self._chosen else {}
        self._group_tables()
        self._cut_rows()
        self._cut_columns()
        self._order_outputs()

    def config_of_input(self, i):
        """That of the table of an input."""
        return self.global_configs[self.input_table_map[i]]

    def shape(self, table):
        """(rows, columns) of a table."""
        config = self.global_configs[table]
        return config["input_dim"], config["output_dim"]

    def costs(self):
        """TableCosts of each table, by the workload."""
        hotness = self.workload.hotness_of_inputs(len(self.input_table_map))
        of_tables = [[] for _ in self.global_configs]
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

    def _choose(self, columns_only):
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

    def _group_tables(self):
        self.table_groups = [[], [], []]
        for table in range(len(self.global_configs)):
            self.table_groups[self._group_of(table)].append(table)
        self.input_groups, self.map_groups = [], []
        for tables in self.table_groups:
            inputs = [i for i, table in enumerate(self.input_table_map) if table in tables]
            self.input_groups.append(inputs)
            self.map_groups.append([tables.index(self.input_table_map[i]) for i in inputs])
        self.rev_group_ids = _places([i for inputs in self.input_groups for i in inputs])

    def _group_of(self, table):
        if self._chosen is not None:
            groups = self._chosen.copied, self._chosen.by_columns, self._chosen.by_rows
            return next(group for group, tables in enumerate(groups) if table in tables)
        rows, columns = self.shape(table)
        if self.data_parallel_threshold and rows * columns <= self.data_parallel_threshold:
            return REPLICATED
        if self.row_slice_threshold and rows * columns >= self.row_slice_threshold:
            return BY_ROWS
        return BY_COLUMNS

    def _cut_rows(self):
        tables = self.table_groups[BY_ROWS]
        self.row_sliced_configs, self.row_inputs_offsets = [], []
        for rank in range(self.world_size):
            begins = [self._first_row(table, rank) for table in tables]
            ends = [self._first_row(table, rank + 1) for table in tables]
            self.row_inputs_offsets.append([-begin for begin in begins])
            self.row_sliced_configs.append([
                {**self.global_configs[table], "input_dim": end - begin}
                for table, begin, end in zip(tables, begins, ends)
            ])  # fmt: skip

    def _first_row(self, table, rank):
        size, longer = divmod(self.global_configs[table]["input_dim"], self.world_size)
        return rank * size + min(rank, longer)

    def _cut_columns(self):
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

    def _joined_config(self, fused):
        first = self.global_configs[self.table_groups[BY_COLUMNS][fused.slices[0].table]]
        sizes = {"input_dim": fused.num_rows, "output_dim": fused.num_columns}
        return {**first, **sizes, "cpu_offload": fused.on_host}

    def _positions(self, plan):
        """For each input that the rank looks up, the slice that it is of."""
        return [at for at, one in enumerate(plan.slices) for _ in self._inputs_of(one.table)]

    def _inputs_of(self, table):
        """The group's inputs of one of its tables."""
        return [i for i, of in enumerate(self.map_groups[BY_COLUMNS]) if of == table]

    def _order_outputs(self):
        self.input_ids_list = [
            [i for table in tables for i in self._inputs_of(table)] for tables in self.table_ids
        ]
        self.widths_list_flat = [
            plan.slices[at].num_columns for plan in self.plans for at in self._positions(plan)
        ]
        inputs = [i for of_rank in self.input_ids_list for i in of_rank]
        self.rev_tp_ids = sorted(range(len(inputs)), key=inputs.__getitem__)
        slices = [one for plan in self.plans for one in plan.slices]
        cut = {one.table for one in slices if one.num_merged > 1}  # also where one rank has it all
        self.sliced_out_ranges = [
            [i, i + inputs.count(i)]
            for i, table in enumerate(self.map_groups[BY_COLUMNS])
            if table in cut or inputs.count(i) > 1
        ]


def _config_of(embedding):
    config = embedding.get_config()
    missing = [key for key in ("input_dim", "output_dim") if key not in config]
    if missing:
        raise ValueError(
            f"the configuration of {type(embedding).__name__} has no {' and no '.join(missing)}: "
            "a layer that is planned has both"
        )
    return config


def _kind(embedding, config):
    """Tables of one kind may be joined: what differs in it would be lost in one of them."""
    layer = type(embedding)
    is_known = layer.__name__ == "Embedding" and layer.__module__.split(".")[0] in _EMBEDDINGS
    return "Embedding" if is_known else layer, *(repr(config.get(key)) for key in _ALIKE)


def _checked_map(input_table_map, num_tables):
    input_table_map = list(input_table_map)
    if any(not 0 <= table < num_tables for table in input_table_map):
        raise ValueError(
            f"Wrong input initializing input/map groups. input_table_map {input_table_map} must "
            f"have indices of the {num_tables} tables"
        )
    return input_table_map


def _places(order):
    """Where each of 0..n-1 is in `order`."""
    return sorted(range(len(order)), key=order.__getitem__)
