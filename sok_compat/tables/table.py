# SPDX-License-Identifier: Apache-2.0
"""`Table`: keys -> rows, as TensorFlow and its optimizers see it. No face, no lookup."""

import weakref

import tensorflow as tf

from sok_compat.ranks.identity import connect_ranks
from sok_compat.ranks.same_on_all_ranks import check_same_table
from sok_compat.runtime import integrations
from sok_compat.runtime.devices import table_device
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.strategies import (
    OfAnyStrategy,
    accept_strategies,
    raise_under_several_replicas,
)
from sok_compat.runtime.tf_versions import (
    BaseResourceVariable,
    var_is_initialized_op,
)
from sok_compat.tables import resource_handles
from sok_compat.tables.first_value import parse_initializer
from sok_compat.tables.gpu_plane import GpuPlane
from sok_compat.tables.key_history import HasHistory, checked_history
from sok_compat.tables.no_copies import NoCopies
from sok_compat.tables.placement import Placement
from sok_compat.tables.rows.row_reads import RowReads
from sok_compat.tables.rows.row_updates import RowUpdates
from sok_compat.tables.rows.shown_rows import ShownRows
from sok_compat.tables.slot_names import owner_by_name
from sok_compat.tables.slot_variable import SlotVariable
from sok_compat.tables.slots import AskedSlots
from sok_compat.tables.table_arguments import (
    UNDECLARED_CAPACITY,
    checked_key_dtype,
    checked_sizes,
)
from sok_compat.tables.undefined_methods import UndefinedMethods
from sok_compat.tables.words import Words

DEFAULT_SEED = 1  # of first values: a fixed one, so that it is the same on all ranks

_eager_tables = weakref.WeakValueDictionary()  # {unique id: table}; graphs know their variables


class Table(
    HasHistory,
    ShownRows,
    RowReads,
    RowUpdates,
    GpuPlane,
    NoCopies,
    UndefinedMethods,
    OfAnyStrategy,
    BaseResourceVariable,
):
    """Keys -> rows of `dim` float32.

    `handle` is an ordinary resource variable over the rows, `[capacity, dim]`, so that
    `tf.gradients` and stock optimizers work on it; rows stand in the order in which their keys
    came. `table_handle` is the table itself, keys to row ids. Memory is used for rows in use, not
    for the capacity. It is on the CPU, or on the GPU that the `tf.device` around it names
    (docs/understand/cuda.md).

    Without a capacity the variable is `[None, dim]`: it and its slots show as many rows as there is
    memory for now, and more when keys come. What reads all of it at once, `value()` and optimizers
    with dense gradients, sees that number of rows.

    In a graph, running `initializer` makes the table, and again empties it. In eager mode it is
    made at once, and freed with this object.

    Attributes:
      table_name: unique; what first values and checkpoints go by. Of it `name` is made ('x:0').
      capacity: rows on this rank, at most; None: as many as there is memory for.
      dim: floats in a row.
      key_dtype: tf.int64 or tf.uint32, of keys in files.
      use_hash_index: False: the row of a key is key // number of ranks.
      first_value: the FirstValue of rows.
      seed: of first values, where first_value has none of its own.
      initial_rows: [capacity, dim], where an initializer makes the whole table at once.
      placement: which rank owns which keys.
      history: the KeyHistory; None: nothing is known of keys but their rows.
      slots: the SlotVariables made for it; in eager mode they are not kept, see `living_slots`.
      asked_slots: those that `slot_for` has made.
      num_scopes: scopes that are open and turn updates of its planes into those of rows in use.
    """

    words = Words()
    make_saveable = None  # of (table, name): what a checkpoint holds of it; set by `checkpoint`
    saver_layout = None  # a class of `checkpoint`, in the place of what that has for tf.train.Saver
    slots_are_planes = False  # those of stock optimizers, without a scope (training/stock_slots.py)
    saved_parts = ()  # SavedParts: whoever made them has it saved as these
    saved_with = None  # in a graph, who saves them: what has saveable(), a PartsSaveable
    part = None  # the TablePart, of a table that is one
    fill_slot = None  # of (slot): what gives one that is made from now on its rows
    _known_slots = ()  # weak references

    def __init__(
        self,
        capacity,
        dim,
        initializer=None,
        *,
        key_dtype=None,
        use_hash_index=True,
        name="Table",
        seed=None,
        trainable=True,
        placement=None,
        collections=None,
        history=None,
    ):
        """Makes the table; in a graph, its ops.

        Args:
          capacity: most rows on this rank, an int >= 1: a limit, not an allocation. None: no
            limit, for which the table needs a hash index, and an initializer that can make rows
            one after the other.
          dim: floats in a row, an int >= 1.
          initializer: see `parse_initializer`.
          key_dtype: tf.int64 (also None) or tf.uint32, or their names.
          use_hash_index: False: keys are in [0, capacity * number of ranks).
          name: made unique in the current name scope of the default graph, also in eager mode.
          seed: of first values, with `table_name` and the key: an int, the same on all ranks.
            None: DEFAULT_SEED.
          trainable: whether it is put into TRAINABLE_VARIABLES.
          placement: which rank owns which keys; None: by modulo over Horovod's ranks, if the
            script initialized it, else on this one.
          collections: of the graph that it is put into; None: GLOBAL_VARIABLES.
          history: a KeyHistory, for lookups whose gradients insert; it needs a hash index.

        Raises:
          RuntimeError: under a tf.distribute strategy of several replicas.
          tf.errors.InvalidArgumentError: in eager mode, the ranks make different tables.
          ValueError: an argument out of range.
        """
        raise_under_several_replicas(type(self).__name__)
        integrations.expect_tables()
        self.capacity, self.dim = checked_sizes(capacity, dim)
        self.key_dtype = checked_key_dtype(key_dtype)
        self.use_hash_index = bool(use_hash_index)
        self.slots, self.asked_slots = [], AskedSlots()
        self.num_scopes = 0
        shape = [self.capacity, self.dim]
        self.first_value = parse_initializer(
            initializer, shape, self.use_hash_index, self.words.initializer
        )
        self.history = checked_history(history, self.use_hash_index, self.first_value.kind)
        if self.capacity is None:
            self._check_needs_no_capacity()
        self.initial_rows = None
        self.placement = placement or Placement.by_modulo(connected_ranks())
        self.seed = DEFAULT_SEED if seed is None else seed
        with tf.init_scope():  # out of functions and branches; waits for nothing that is around
            self._make(name, trainable, shape)
            if not tf.executing_eagerly():
                self._add_to_collections(collections)

    def _check_needs_no_capacity(self):
        if not self.use_hash_index:
            raise ValueError("a table without a hash index needs a capacity, got None")
        if self.first_value.kind == "preset":
            raise ValueError(
                f"{self.words.initializer} {self.first_value.initializer!r} makes all rows at "
                "once, for which the table needs a capacity, got None"
            )

    def _make(self, name, trainable, shape):
        in_graph = not tf.executing_eagerly()
        with tf.name_scope(name) as scope, tf.device(table_device()):
            self.table_name = resource_handles.name_from_scope(scope)
            handle = resource_handles.plane_handle(self.table_name, scope, shape)
            self.table_handle = resource_handles.table_handle(self.table_name)
            self._deleters = resource_handles.deleters(handle, self.table_handle)
            fetched = None
            if in_graph:
                fetched = self._fetched_rows(handle, shape)
                self._imported_read = self._make_reads(handle, scope)
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
            _eager_tables[self._unique_id] = self
            check_same_table(self.ranks, self.description())

    def _make_reads(self, handle, scope):
        """What an imported meta graph reads the rows by; and, by the name that
        convert_variables_to_constants reads a variable by, an op that says why it cannot."""
        with tf.name_scope(f"{scope}Read/"):
            refuse = tf.raw_ops.Assert(
                condition=False,
                data=[
                    f"a graph with tables cannot be frozen, got {self.table_name}: constants would "
                    "have their rows, but not the keys. Export it with tf.compat.v1.saved_model, "
                    "which saves both"
                ],
            )
            with tf.control_dependencies([refuse]):
                tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
            return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32, name="Rows")

    def _fetched_rows(self, handle, shape):
        """What a session gives for the table."""
        # The read itself a saver of TensorFlow's would take for an ordinary variable.
        return tf.identity(self._read_rows_of(handle, shape, name="Read"))

    def _add_to_collections(self, collections):
        keys = tf.compat.v1.GraphKeys
        collections = {keys.GLOBAL_VARIABLES} if collections is None else set(collections)
        if self.trainable:
            collections.add(keys.TRAINABLE_VARIABLES)
        tf.compat.v1.add_to_collections(sorted(collections), self)

    def description(self):
        """One line of what all ranks must agree on when it is made."""
        return (
            f"{self.kind()}, capacity {self.capacity}, first value {self.first_value}, "
            f"seed {self._first_seed}"
        )

    def kind(self):
        """What all ranks must agree on when they use it together, in one line."""
        return (
            f"table {self.table_name}: dim {self.dim}, use_hash_index {self.use_hash_index}, "
            f"key_dtype {self.key_dtype.name}"
            + ("" if self.history is None else f", {self.history}")
        )

    @property
    def op_capacity(self):
        """The capacity as the op library knows it."""
        return UNDECLARED_CAPACITY if self.capacity is None else self.capacity

    @property
    def ranks(self):
        """The Ranks that share it."""
        return self.placement.ranks

    @classmethod
    def _variable_call(cls, *args, **kwargs):
        """Keeps TensorFlow from matching positional arguments with those of tf.Variable."""
        return None

    def initialize_if_missing(self):
        """An op that makes the table, empty, unless it is there: for what is to fill it."""
        with tf.device(self.device):
            return self._make_initializer(self.handle, keep_existing=True)

    def replace_initializer(self, op):
        """Makes `op`, which makes the table and fills it, what `initializer` is from now on."""
        self._initializer_op = op

    def _make_initializer(self, handle, keep_existing=False):
        """No rank waits for another in it: one may resume where another one is fresh."""
        is_there = var_is_initialized_op(handle) if keep_existing else None
        with tf.control_dependencies([is_there] if keep_existing else []):
            initialize = self._table_initialize(handle, keep_existing)
        if self.first_value.kind != "preset":
            return initialize

        def preset():
            rows = self.first_value.whole_table([self.capacity, self.dim])
            if not keep_existing:
                self.initial_rows = rows
            return ops.sok_table_preset(self.table_handle, rows, name="Preset")

        with tf.control_dependencies([initialize]):
            return tf.cond(is_there, tf.no_op, preset) if keep_existing else preset()

    def _table_initialize(self, handle, keep_existing):
        first = self.first_value
        return ops.sok_table_initialize(
            self.table_handle,
            handle,
            tf.constant(self._first_seed, tf.int64),
            table_name=self.table_name,
            dim=self.dim,
            capacity=self.op_capacity,
            use_hash_index=self.use_hash_index,
            **self.placement.op_attributes(),
            first_value=first.op_kind,
            low_or_mean=first.low_or_mean,
            high_or_stddev=first.high_or_stddev,
            first_value_period=first.period or 0,
            first_value_name=first.name or "",
            keep_existing=keep_existing,
            **({} if self.history is None else self.history.op_attributes()),
            name="Initialize",
        )

    @property
    def _first_seed(self):
        return self.seed if self.first_value.seed is None else self.first_value.seed

    def living_slots(self):
        """The SlotVariables made for it that are there, in the order in which they were made."""
        slots = [slot for known in self._known_slots if (slot := known()) is not None]
        self._known_slots = tuple(weakref.ref(slot) for slot in slots)
        return slots

    def note_slot(self, slot):
        """For a SlotVariable of it, when that is made."""
        self._known_slots += (weakref.ref(slot),)
        if self.fill_slot is not None:
            self.fill_slot(slot)

    def num_keys(self):
        """A scalar int64 tensor: the keys in the table."""
        return ops.sok_table_size(self.table_handle)

    def export(self):
        """All keys int64 [n] and their rows float32 [n, dim], in the order of row ids."""
        keys, rows = ops.sok_export_table(self.table_handle)
        rows.set_shape([None, self.dim])
        return keys, rows

    def _gather_saveables_for_checkpoint(self):
        """For tf.train.Checkpoint: the table with its slots; nothing where its parts are saved by
        another object.

        Raises:
          RuntimeError: nobody has said what a checkpoint holds of tables.
        """
        if self.saved_parts:
            return {}
        if self.make_saveable is None:
            raise RuntimeError(
                f"tf.train.Checkpoint does not know yet what to save of the table "
                f"{self.table_name}: call sok_compat.checkpoint.save_tables_in_checkpoints() first"
            )
        return {"table": lambda name: self.make_saveable(self, name)}

    def to_proto(self, export_scope=None):
        """For meta graphs: the rows' variable. What is saved of it is in the graph's saver."""
        proto = super().to_proto(export_scope)
        if proto is not None:
            read = self._imported_read.name
            proto.snapshot_name = read.removeprefix(f"{export_scope}/") if export_scope else read
        return proto

    def __repr__(self):
        """Without the rows, of which there may be very many."""
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"


def connected_ranks(user="sok_compat.tables.connected_ranks()"):
    """The Ranks of this process, ready to exchange: Horovod's, if the script initialized it.

    Args:
      user: what calls this, for messages.

    Raises:
      RuntimeError: the script was launched as one of several ranks, but Horovod is not ready.
    """
    return connect_ranks(has_rows_of_a_rank, is_shared_table, user)


def is_part_of_table(variable):
    """Whether it is a table or a slot of one, of which each rank has its own rows."""
    return isinstance(variable, (Table, SlotVariable))


def has_rows_of_a_rank(variable):
    """The same, or an ordinary variable that an optimizer has made as a slot of a table, as those
    of tf.keras.optimizers.legacy do: it has the table's shape, and its name has the table's."""
    if is_part_of_table(variable):
        return True
    if getattr(variable, "trainable", True) or not hasattr(variable, "name"):
        return False
    # Of tables of one name, which others may still hold, one of its shape.
    alike = [table for table in _eager_tables.values() if variable.shape == table.shape]
    table = owner_by_name(variable.name.partition(":")[0], alike)
    return table is not None and variable.shape.rank == 2 and variable.shape == table.shape


def is_shared_table(variable):
    """Whether it is a table with rows on several ranks, whose gradients are sums over ranks."""
    return isinstance(variable, Table) and variable.placement.is_spread


integrations.when_there_are_tables(lambda: accept_strategies(is_part_of_table))
