# SPDX-License-Identifier: Apache-2.0
"""`Table`: keys -> rows, as TensorFlow and its optimizers see it. No face, no lookup."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.ranks.same_on_all_ranks import check_same_table
from sok_compat.runtime import integrations
from sok_compat.runtime.devices import table_device
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.strategies import (
    accept_strategies,
    raise_under_several_replicas,
)
from sok_compat.runtime.tf_versions import var_is_initialized_op, variable_accessed
from sok_compat.tables import history_methods, resource_handles, undefined_methods
from sok_compat.tables.first_value import FirstValue, Initializer, parse_initializer
from sok_compat.tables.interface import TableInterface
from sok_compat.tables.key_history import KeyHistory, check_history
from sok_compat.tables.known_tables import connected_ranks, is_part_of_table, note_eager_table
from sok_compat.tables.placement import Placement
from sok_compat.tables.rows import row_reads, row_updates
from sok_compat.tables.rows.optimizer_updates import update_rows_of_gradients
from sok_compat.tables.rows.row_scatters import warn_of_clamped
from sok_compat.tables.rows.scatter_functions import scatter_by_methods
from sok_compat.tables.shows import Shown
from sok_compat.tables.slots.keras_optimizers import update_rows_in_use_in_keras
from sok_compat.tables.slots.registry import Slots
from sok_compat.tables.slots.slot_variable import SlotVariable
from sok_compat.tables.slots.stock_slots import make_slots_as_planes
from sok_compat.tables.stored.description import describe_in_graph
from sok_compat.tables.stored.storage import Storage
from sok_compat.tables.table_arguments import (
    checked_files,
    checked_key_dtype,
    checked_rounding,
    checked_row_dtype,
    checked_sizes,
)
from sok_compat.tables.words import Words

DEFAULT_SEED = 1  # of first values; constant, so the same on all ranks


class Table(TableInterface):
    """Keys -> rows of `dim` float32.

    In memory the numbers in rows are `row_dtype`: of bfloat16 and float16 they take half as much.
    Lookups, gradients and slots stay float32, as is `dtype`; updates round.

    `handle` is an ordinary resource variable over the rows, `[capacity, dim]`, so that
    `tf.gradients` and stock optimizers work on it; rows are in the order in which their keys came.
    Memory is used for rows in use, not for the capacity. The table is on the CPU, or on the GPU of
    the enclosing `tf.device` (docs/understand/cuda.md).

    Without a capacity the variable is `[None, dim]`: it and its slots show the rows that have
    memory, and grow with new keys. Reads of the whole variable, such as `value()` and optimizers
    with dense gradients, see this number of rows.

    With a `storage_path`, a folder on a disk, rows and slots are in files there, which no folder
    lists and which end with the process, so that a table may be larger than memory. Between steps
    at most `memory_bytes` of them are in memory; results are those of a table in memory.

    In a graph, running `initializer` makes the table, and empties it when run again. In eager mode
    the table is made at once, and freed with this object.

    Attributes, besides those of TableInterface:
      row_dtype: of the numbers in rows: tf.float32, tf.bfloat16 or tf.float16.
      rounding: of updates of rows of two bytes. 'stochastic': up or down at random, such that the
        mean is exact; the random numbers are a function of the seed, the table's name, the key, the
        column and the number of updates. 'nearest' loses updates of less than half a step.
      first_value: the FirstValue of rows.
      seed: of first values, if first_value has none.
      initial_rows: [capacity, dim], if the initializer makes the whole table at once; else None.
    """

    words = Words()

    def __init__(
        self,
        capacity: int | None,
        dim: int,
        initializer: Initializer = None,
        *,
        row_dtype: tf.DType | str | None = None,
        rounding: str = "stochastic",
        key_dtype: tf.DType | str | None = None,
        use_hash_index: bool = True,
        name: str = "Table",
        seed: int | None = None,
        trainable: bool = True,
        placement: Placement | None = None,
        collections: Iterable[str] | None = None,
        history: KeyHistory | None = None,
        storage: Storage | None = None,
        storage_path: str | os.PathLike[str] | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        """Makes the table; in a graph, its ops.

        Args:
          capacity: most rows on this rank, an int >= 1: a limit, not an allocation. None: no
            limit; this needs a hash index and an initializer that makes rows one by one.
          dim: floats in a row, an int >= 1.
          initializer: see `parse_initializer`.
          row_dtype, rounding, storage_path, memory_bytes: see above; None: default, in memory.
          key_dtype: tf.int64 (also None) or tf.uint32, or their names.
          use_hash_index: False: keys are in [0, capacity * number of ranks).
          name: made unique in the current name scope of the default graph, also in eager mode.
          seed: of first values, an int, the same on all ranks; None: DEFAULT_SEED.
          trainable: whether to add the table to TRAINABLE_VARIABLES.
          placement: which rank owns which keys; None: by modulo over connected_ranks().
          collections: the graph collections to add it to; None: GLOBAL_VARIABLES.
          history, storage: its KeyHistory, which needs a hash index, and its Storage, or None.

        Raises:
          RuntimeError: a tf.distribute strategy has several replicas.
          tf.errors.InvalidArgumentError: in eager mode, the ranks make different tables.
          ValueError: an argument is out of range.
        """
        raise_under_several_replicas(type(self).__name__)
        integrations.expect_tables()
        self.capacity, self.dim = checked_sizes(capacity, dim)
        self.row_dtype, self.rounding = checked_row_dtype(row_dtype), checked_rounding(rounding)
        self.key_dtype, self.use_hash_index = checked_key_dtype(key_dtype), bool(use_hash_index)
        self.storage, self.slots_by_owner = storage or Storage(), Slots()
        self.shown, self.num_scopes, self.history, self.initial_rows = Shown(), 0, history, None
        self.file_attributes = checked_files(storage_path, memory_bytes)
        shape = [self.capacity, self.dim]
        self.first_value = parse_initializer(
            initializer, shape, self.use_hash_index, self.words.initializer
        )
        self._check_capacity()
        self.placement = placement or Placement.by_modulo(connected_ranks())
        self.seed = DEFAULT_SEED if seed is None else seed
        with tf.init_scope():  # outside functions, branches and control dependencies
            self._make(name, trainable, shape)
            self._add_to_collections(collections)

    def _check_capacity(self) -> None:
        check_history(self.history, self.use_hash_index, self.first_value.kind, self.capacity)
        if self.capacity is not None:
            return
        if not self.use_hash_index:
            raise ValueError("a table without a hash index needs a capacity, got None")
        if self.first_value.kind == "preset":
            raise ValueError(
                f"{self.words.initializer} {self.first_value.initializer!r} makes all rows at "
                "once, for which the table needs a capacity, got None"
            )

    def _make(self, name: str, trainable: bool, shape: Sequence[int | None]) -> None:
        in_graph = not tf.executing_eagerly()
        with tf.name_scope(name) as scope, tf.device(table_device()):
            self.table_name = resource_handles.name_from_scope(scope)
            handle = resource_handles.plane_handle(
                self.table_name, scope, shape, self, self.row_dtype
            )
            self.table_handle = resource_handles.table_handle(self.table_name)
            self._deleters = resource_handles.deleters(handle, self.table_handle)
            fetched = None
            if in_graph:
                fetched = self._fetched_rows(handle, shape)
                self._imported_read = undefined_methods.make_reads(self, handle, scope)
            super().__init__(
                trainable=trainable,
                shape=shape,
                dtype=tf.float32,
                handle=handle,
                name=self.table_name,
                unique_id=resource_handles.unique_id(self.table_name),
                handle_name=self.table_name,
                graph_element=fetched,
                initializer_op=self._make_initializer(handle),
                is_initialized_op=var_is_initialized_op(handle) if in_graph else None,
                in_graph_mode=in_graph,
            )
        if not in_graph:
            note_eager_table(self)
            check_same_table(self.ranks, self.description())
        describe_in_graph(self)

    def _fetched_rows(self, handle: tf.Tensor, shape: Sequence[int | None]) -> tf.Tensor:
        """Returns the tensor that a session fetches for the table."""
        # TensorFlow's savers would take the read itself for an ordinary variable.
        return tf.identity(row_reads.read_rows_of(self, handle, shape, name="Read"))

    def _add_to_collections(self, collections: Iterable[str] | None) -> None:
        if tf.executing_eagerly():
            return
        keys = tf.compat.v1.GraphKeys
        collections = {keys.GLOBAL_VARIABLES} if collections is None else set(collections)
        if self.trainable:
            collections.add(keys.TRAINABLE_VARIABLES)
        tf.compat.v1.add_to_collections(sorted(collections), self)

    def description(self) -> str:
        """One line that must be the same on all ranks when the table is made."""
        return (
            f"{self.kind()}, capacity {self.capacity}, first value {self.first_value}, "
            f"seed {self._first_seed}"
            + ("" if self.row_dtype == tf.float32 else f", rounding {self.rounding}")
        )

    def kind(self) -> str:
        """One line that must be the same on all ranks when they use the table together."""
        return (
            f"table {self.table_name}: dim {self.dim}, use_hash_index {self.use_hash_index}, "
            f"key_dtype {self.key_dtype.name}"
            + ("" if self.row_dtype == tf.float32 else f", rows {self.row_dtype.name}")
            + ("" if self.history is None else f", {self.history}")
        )

    @classmethod
    def _variable_call(cls, *args: Any, **kwargs: Any) -> None:
        """Stops TensorFlow from matching positional arguments with those of tf.Variable."""
        return None

    def initialize_if_missing(self) -> tf.Operation:
        """Returns an op that makes an empty table unless the table exists."""
        with tf.device(self.device):
            return self._make_initializer(self.handle, keep_existing=True)

    def replace_initializer(self, op: tf.Operation) -> None:
        """Replaces `initializer` by `op`, which makes the table and fills it."""
        self._initializer_op = op

    def restarted(self, first_value: FirstValue) -> tf.Operation:
        """Returns an op that empties the table; from now on its keys start as `first_value`."""
        self.first_value = first_value
        return self._make_initializer(self.handle)

    def _make_initializer(self, handle: tf.Tensor, keep_existing: bool = False) -> tf.Operation:
        """Runs no collective: one rank may resume while another starts fresh."""
        is_there = var_is_initialized_op(handle) if keep_existing else None
        with tf.control_dependencies([is_there] if keep_existing else []):
            initialize = self._table_initialize(handle, keep_existing)
        if self.first_value.kind != "preset":
            return initialize

        def preset():
            rows = self.first_value.whole_table([self.capacity, self.dim])
            if not keep_existing:
                self.initial_rows = rows
            with tf.control_dependencies(warn_of_clamped(rows, self)):
                return ops.sok_table_preset(self.table_handle, rows, name="Preset")

        with tf.control_dependencies([initialize]):
            return tf.cond(is_there, tf.no_op, preset) if keep_existing else preset()

    def _table_initialize(self, handle: tf.Tensor, keep_existing: bool) -> tf.Operation:
        first = self.first_value
        return ops.sok_table_initialize(
            self.table_handle,
            handle,
            tf.constant(self._first_seed, tf.int64),
            [] if first.rows is None else [first.rows],
            table_name=self.table_name,
            raise_capacity=self.words.raise_capacity,
            dim=self.dim,
            capacity=self.op_capacity,
            use_hash_index=self.use_hash_index,
            row_dtype=self.row_dtype,
            rounding=self.rounding,
            **self.placement.op_attributes(),
            **first.op_attributes(),
            **self.file_attributes,
            keep_existing=keep_existing,
            **({} if self.history is None else self.history.op_attributes()),
            name="Initialize",
        )

    @property
    def _first_seed(self) -> int:
        return self.seed if self.first_value.seed is None else self.first_value.seed

    @property
    def slots(self) -> list[SlotVariable]:
        """The existing SlotVariables of the table, oldest first."""
        return self.slots_by_owner.existing()

    def note_slot(self, slot: SlotVariable) -> None:
        """Registers a SlotVariable of the table that has just been made."""
        self.slots_by_owner.add(slot)
        if self.storage.fill_slot is not None:
            self.storage.fill_slot(slot)

    def num_keys(self) -> tf.Tensor:
        """Returns the number of keys in the table, a scalar int64 tensor."""
        return ops.sok_table_size(self.table_handle)

    def export(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns all keys int64 [n] and their rows float32 [n, dim], in the order of row ids."""
        keys, rows = ops.sok_export_table(self.table_handle)
        rows.set_shape([None, self.dim])
        return keys, rows

    def before_save(self) -> tf.Operation | None:
        """Returns the op to run before a checkpoint of the table is written, or None."""
        return None

    key_history = history_methods.key_history
    waiting_keys = history_methods.waiting_keys
    import_history = history_methods.import_history
    evict = history_methods.evict
    make_room = history_methods.make_room

    # Methods of tf.Variable, of which those by index are defined without a hash index only.

    numpy = row_reads.numpy
    gather_nd = row_reads.gather_nd
    __deepcopy__ = row_reads.deepcopy
    __getitem__ = row_reads.getitem
    __array__ = row_reads.as_array
    initial_value = property(row_reads.initial_value)
    initialized_value = row_reads.initialized_value
    read_value_no_copy = undefined_methods.read_value_no_copy

    def sparse_read(self, indices: Any, name: str | None = None) -> tf.Tensor:
        return row_reads.sparse_read(self, indices, name)

    def _read_plane(self, *args: Any, **kwargs: Any) -> tf.Tensor:
        """The rows [capacity, dim] in the order of row ids; zeros for unused rows."""
        del args, kwargs
        variable_accessed(self)
        return row_reads.read_rows_of(self, self.handle, [self.capacity, self.dim])

    def assign(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        return row_updates.assign(self, value, *args, **kwargs)

    def before_update(self, delta: tf.Tensor | tf.IndexedSlices) -> list[tf.Tensor]:
        return row_updates.before_update(self, delta)

    load = row_updates.load
    scatter = row_updates.scatter
    scatter_add = row_updates.scattering("add")
    scatter_sub = row_updates.scattering("sub")
    scatter_update = row_updates.scattering("update")
    scatter_mul = row_updates.scattering("mul")
    scatter_div = row_updates.scattering("div")
    scatter_max = row_updates.scattering("max")
    scatter_min = row_updates.scattering("min")
    scatter_nd_add = row_updates.scattering("nd_add")
    scatter_nd_sub = row_updates.scattering("nd_sub")
    scatter_nd_update = row_updates.scattering("nd_update")
    scatter_nd_max = row_updates.scattering("nd_max")
    scatter_nd_min = row_updates.scattering("nd_min")
    _strided_slice_assign = row_updates.strided_slice_assign

    batch_scatter_update = undefined_methods.by_index("batch_scatter_update")
    count_up_to = undefined_methods.by_index("count_up_to")
    set_shape = undefined_methods.by_index("set_shape")
    from_proto = undefined_methods.from_proto
    __int__ = undefined_methods.by_index("__int__")
    __iadd__ = undefined_methods.by_index("__iadd__")
    __isub__ = undefined_methods.by_index("__isub__")
    __imul__ = undefined_methods.by_index("__imul__")
    __itruediv__ = undefined_methods.by_index("__itruediv__")
    _export_to_saved_model_graph = undefined_methods.export_to_saved_model_graph
    _copy_trackable_to_cpu = undefined_methods.copy_trackable_to_cpu

    def _gather_saveables_for_checkpoint(self) -> dict[str, Callable[[str], Any]]:
        """For tf.train.Checkpoint: the table with its slots; nothing if another object saves its
        parts.

        Raises:
          RuntimeError: save_tables_in_checkpoints has not been called.
        """
        make_saveable = Storage.make_saveable
        if self.storage.parts:
            return {}
        if make_saveable is None:
            raise RuntimeError(
                f"tf.train.Checkpoint does not know yet what to save of the table "
                f"{self.table_name}: call sok_compat.checkpoint.save_tables_in_checkpoints() first"
            )
        return {"table": lambda name: make_saveable(self, name)}

    def to_proto(self, export_scope: str | None = None) -> Any:
        """For meta graphs: the variable of the rows. The graph's saver knows what to save of it."""
        proto = super().to_proto(export_scope)
        if proto is not None:
            read = self._imported_read.name
            proto.snapshot_name = read.removeprefix(f"{export_scope}/") if export_scope else read
        return proto


integrations.when_there_are_tables(lambda: accept_strategies(is_part_of_table))
integrations.when_there_are_tables(scatter_by_methods)
integrations.when_there_are_tables(update_rows_of_gradients)
integrations.when_there_are_tables(make_slots_as_planes)
integrations.when_there_are_tables(update_rows_in_use_in_keras)
