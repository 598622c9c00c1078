# SPDX-License-Identifier: Apache-2.0
"""`EmbeddingVariable`: a table as TensorFlow and its optimizers see it."""

import weakref

import numpy as np
import tensorflow as tf

from sok_compat.runtime.agreement import agree_on_table
from sok_compat.runtime.devices import table_device
from sok_compat.runtime.initialization import current_initialization
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import (
    BaseResourceVariable,
    var_is_initialized_op,
    variable_accessed,
)
from sok_compat.variables import resource_handles
from sok_compat.variables.first_value import parse_initializer
from sok_compat.variables.gpu_plane import GpuPlane
from sok_compat.variables.row_updates import RowUpdates
from sok_compat.variables.table_saveable import TableSaveable

KEY_DTYPES = (tf.int64, tf.uint32)
MAX_TABLE_BYTES = 1 << 47  # as kMaxPlaneBytes in ops/tf/plane_variable.cc
_by_handle = weakref.WeakValueDictionary()  # {id of emb_handle: EmbeddingVariable}


class EmbeddingVariable(RowUpdates, GpuPlane, BaseResourceVariable):
    """A table: keys -> rows of `dim` float32. API of SparseOperationKit 1.x.

    `handle` (= `tf_handle`) is an ordinary resource variable over the rows, `[capacity, dim]`, so
    that `tf.gradients` and stock optimizers work on it; rows stand in the order in
    which their keys came. `emb_handle` is the table itself, keys to row ids. Memory is used for
    rows in use, not for the capacity. It is on the CPU, or on the GPU that the `tf.device` around
    it names (docs/cuda.md).

    In a graph, running `initializer` makes the table, and again empties it. In eager mode it is
    made at once, and freed with this object. `tf.compat.v1.train.Saver` saves it with its `slots`;
    `sok.Saver` writes SparseOperationKit's files.
    """

    def __init__(
        self,
        shape,
        local_replica_id,
        initializer=None,
        trainable=True,
        use_hashtable=True,
        name="EmbeddingVariable",
        dtype=None,
        key_dtype=None,
        *args,
        **kwargs,
    ):
        """Makes the table; in a graph, its ops.

        Args:
          shape: list [capacity, dim]; capacity counts rows on this rank.
          local_replica_id: kept as an attribute; the rank comes from `sok.Init`.
          initializer: see `parse_initializer`.
          trainable: whether it is put into TRAINABLE_VARIABLES.
          use_hashtable: False: the row of a key is key // number of ranks.
          name: made unique in the current name scope of the default graph, also in eager mode.
          dtype: float32 or None.
          key_dtype: tf.int64 (also None) or tf.uint32, or their names.
          *args: ignored, as in SparseOperationKit.
          **kwargs: ignored, as in SparseOperationKit.

        Raises:
          RuntimeError: before `sok.Init`, under a tf.distribute strategy.
          ValueError: shape, dtype or key_dtype out of range.
        """
        del args, kwargs
        capacity, dim = _checked_shape(shape)
        if tf.as_dtype(dtype or tf.float32) != tf.float32:
            raise ValueError(f"the dtype of a table must be float32, got {dtype!r}")
        self.m_key_dtype = checked_key_dtype(key_dtype)
        self.m_initializer = initializer
        self.m_use_hashtable = bool(use_hashtable)
        self.m_shape_per_gpu = [capacity, dim]
        self.m_local_replica_id = local_replica_id
        self.m_dtype = tf.float32
        self.m_trainable = trainable
        self.m_embedding_layer = None
        self.slots = []  # the SlotVariables made for it
        self.num_scopes = 0  # OptimizerScopes of it that are open
        self.first_value = parse_initializer(initializer, [capacity, dim], use_hashtable)
        self.m_initial_value = str(self.first_value)  # a tensor where that is a whole table
        self._initialization = current_initialization("EmbeddingVariable")
        self.ranks = self._initialization.ranks

        with tf.init_scope():  # out of functions and branches; waits for nothing that is around
            self._make(name, trainable, capacity, dim)

    def _make(self, name, trainable, capacity, dim):
        in_graph = not tf.executing_eagerly()
        with tf.name_scope(name) as scope, tf.device(table_device()):
            self.m_var_name = resource_handles.name_from_scope(scope)
            self.m_unique_id = resource_handles.unique_id(self.m_var_name)
            self.tf_handle = resource_handles.plane_handle(self.m_var_name, scope, [capacity, dim])
            self.emb_handle = resource_handles.table_handle(self.m_var_name)
            self._table_handle = self.emb_handle
            self._deleters = resource_handles.deleters(self.tf_handle, self.emb_handle)
            value = self._read([capacity, dim], name="Read") if in_graph else None
            if in_graph:
                with tf.name_scope(f"{scope}Read/"):  # how an imported meta graph reads it
                    tf.raw_ops.ReadVariableOp(resource=self.tf_handle, dtype=tf.float32)
            super().__init__(
                trainable=trainable,
                shape=[capacity, dim],
                dtype=tf.float32,
                handle=self.tf_handle,
                name=self.m_var_name,
                unique_id=self.m_unique_id,
                handle_name=self.m_var_name,
                graph_element=value,
                initializer_op=self._make_initializer(capacity, dim),
                is_initialized_op=var_is_initialized_op(self.tf_handle) if in_graph else None,
                in_graph_mode=in_graph,
            )
        _by_handle[id(self.emb_handle)] = self
        description = (
            f"table {self.m_var_name}: dim {dim}, capacity {capacity}, "
            f"use_hashtable {self.m_use_hashtable}, key_dtype {self.m_key_dtype.name}, "
            f"first value {self.first_value}"
        )
        if not in_graph:
            agree_on_table(self.ranks, description)
            return
        self._initialization.tables.append(description)
        collections = [tf.compat.v1.GraphKeys.GLOBAL_VARIABLES]
        if trainable:
            collections.append(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES)
        tf.compat.v1.add_to_collections(collections, self)

    @classmethod
    def _variable_call(cls, *args, **kwargs):
        """Keeps TensorFlow from matching positional arguments with those of tf.Variable."""
        return None

    @classmethod
    def CreateInstances(cls, *args, **kwargs):
        """One instance, with local_replica_id 0: one process, one device."""
        return cls(*args, local_replica_id=0, **kwargs)

    @classmethod
    def of_handle(cls, handle):
        """The table with that `emb_handle`; None if there is none."""
        return _by_handle.get(id(handle))

    def initialize_if_missing(self):
        """An op that makes the table, empty, unless it is there: for what is to fill it."""
        with tf.device(self.device):
            return self._make_initializer(*self.m_shape_per_gpu, keep_existing=True)

    def _make_initializer(self, capacity, dim, keep_existing=False):
        first = self.first_value
        seed = self._initialization.seed if first.seed is None else first.seed
        status = self._initialization.status
        in_this_graph = tf.is_symbolic_tensor(status) and (
            status.graph is tf.compat.v1.get_default_graph()
        )
        before = [status] if in_this_graph else []
        if keep_existing:
            is_there = var_is_initialized_op(self.tf_handle)
            before.append(is_there)
        with tf.control_dependencies(before):
            initialize = ops.sok_table_initialize(
                self.emb_handle,
                self.tf_handle,
                tf.convert_to_tensor(seed, tf.int64),
                table_name=self.m_var_name,
                dim=dim,
                capacity=capacity,
                use_hash_index=self.m_use_hashtable,
                num_ranks=self.ranks.size,
                rank=self.ranks.rank,
                first_value=first.op_kind,
                low_or_mean=first.low_or_mean,
                high_or_stddev=first.high_or_stddev,
                keep_existing=keep_existing,
                name="Initialize",
            )
        if first.kind != "preset":
            return initialize

        def preset():
            values = first.whole_table([capacity, dim])
            if not keep_existing:
                self.m_initial_value = values
            return ops.sok_table_preset(self.emb_handle, values, name="Preset")

        with tf.control_dependencies([initialize]):
            return tf.cond(is_there, tf.no_op, preset) if keep_existing else preset()

    @property
    def m_handle(self):
        """The table's handle (SparseOperationKit's name for `emb_handle`)."""
        return self.emb_handle

    @property
    def embedding_layer(self):
        """What `set_embedding_layer` was given.

        Raises:
          ValueError: it has not been called.
        """
        if self.m_embedding_layer is None:
            raise ValueError(
                f"{self.m_var_name} has no embedding layer yet: call set_embedding_layer"
            )
        return self.m_embedding_layer

    def set_embedding_layer(self, embedding_layer):
        """Remembers the handle of the layer that reads this table; once.

        Raises:
          ValueError: called a second time.
        """
        if self.m_embedding_layer is not None:
            raise ValueError(f"{self.m_var_name} already has an embedding layer")
        self.m_embedding_layer = embedding_layer

    def num_keys(self):
        """A scalar int64 tensor: the keys in the table."""
        return ops.sok_table_size(self.emb_handle)

    def export(self):
        """All keys int64 [n] and their rows float32 [n, dim], in the order of row ids."""
        keys, rows = ops.sok_export_table(self.emb_handle)
        rows.set_shape([None, self.shape[1]])
        return keys, rows

    def _gather_saveables_for_checkpoint(self):
        """For tf.train.Checkpoint: the table with its slots.

        Raises:
          NotImplementedError: in eager mode.
        """
        if tf.executing_eagerly():
            raise NotImplementedError(
                f"tf.train.Checkpoint does not save the table {self.m_var_name} in eager mode: "
                "give it the other variables, and use sok.Saver for tables"
            )
        return {"table": lambda name: TableSaveable(self, name)}

    def to_proto(self, export_scope=None):
        """For meta graphs: the rows' variable. What is saved of it is in the graph's saver."""
        proto = super().to_proto(export_scope)
        if proto is not None:
            proto.snapshot_name = ""  # the import then takes Read/ReadVariableOp
        return proto

    def value(self):
        """The rows [capacity, dim] in the order of row ids; rows that no key has yet are zeros."""
        variable_accessed(self)
        return self._read(self.shape)

    def read_value(self):
        """As value()."""
        return self.value()

    def numpy(self):
        """value() as an array, in eager mode, of a table without a hash table.

        Raises:
          NotImplementedError: it has one: rows without their keys are half a table, which Keras's
            get_weights and .h5 files would take for the whole. Or it is graph mode.
        """
        if self.m_use_hashtable and tf.executing_eagerly():
            raise NotImplementedError(
                f"numpy() of the table {self.m_var_name} would be rows without their keys: "
                "export() gives both, value().numpy() the rows alone, and sok.Saver saves tables. "
                "If Keras called it: get_weights, .h5 files and EarlyStopping("
                "restore_best_weights=True) work on tables with use_hashtable=False only"
            )
        return super().numpy()

    def __array__(self, dtype=None):
        """value() for NumPy, which asks for it also where it puts variables into an array."""
        return np.asarray(self.value(), dtype)

    def initialized_value(self):
        """As value(), after the initializer: a table that is not there yet is made first."""
        if tf.executing_eagerly():
            return self.value()
        with tf.init_scope(), tf.control_dependencies([self.initialize_if_missing()]):
            handle, value = tf.identity(self.tf_handle), self._read(self.shape)
            # TensorFlow puts the op that makes this in the place of the handle (output 0) where
            # the value is used to initialize another variable.
            value = tf.raw_ops.IdentityN(input=[handle, value])[1]
        value.set_shape(self.shape)
        return value

    def _read(self, shape, name=None):
        values = ops.sok_read_rows(self.tf_handle, self.emb_handle, name=name)
        values.set_shape(shape)
        return values

    def __repr__(self):
        """Without the rows, of which there may be very many."""
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    def _dense_var_to_tensor(self, dtype=None, name=None, as_ref=False):
        del name, as_ref
        if dtype is not None and not tf.as_dtype(dtype).is_compatible_with(tf.float32):
            return NotImplemented
        return self.value()


_TO_READ = "Look keys up with the layer (not with tf.gather or tf.nn.embedding_lookup)"
_TO_WRITE = "Use an optimizer, or sok.Saver().load_embedding_values to set rows"


def _not_implemented(method):
    instead = _TO_READ if method in ("gather_nd", "sparse_read") else _TO_WRITE

    def raise_not_implemented(self, *args, **kwargs):
        del args, kwargs
        raise NotImplementedError(
            f"{method} is not defined for the table {self.m_var_name}: its rows belong to keys. "
            f"{instead}"
        )

    raise_not_implemented.__name__ = method
    return raise_not_implemented


for _method in (
    "count_up_to",
    "from_proto",
    "gather_nd",
    "load",
    *(f"scatter_{update}" for update in ("div", "max", "min", "mul")),
    *(f"scatter_nd_{update}" for update in ("add", "max", "min", "sub", "update")),
    "batch_scatter_update",
    "sparse_read",
    "__deepcopy__",
    "__int__",
    "__iadd__",
    "__isub__",
    "__imul__",
    "__itruediv__",
):
    setattr(EmbeddingVariable, _method, _not_implemented(_method))


def checked_key_dtype(key_dtype):
    """tf.int64 or tf.uint32, from a dtype, a name or None.

    Raises:
      ValueError: another dtype, or none.
    """
    try:
        dtype = tf.int64 if key_dtype is None else tf.as_dtype(key_dtype)
    except TypeError:
        raise ValueError(f"key_dtype must be int64 or uint32, got {key_dtype!r}") from None
    if dtype not in KEY_DTYPES:
        raise ValueError(f"key_dtype must be int64 or uint32, got {dtype.name}")
    return dtype


def _checked_shape(shape):
    if not isinstance(shape, list) or len(shape) != 2:
        raise ValueError(f"shape must be a list [capacity, dim], got {shape!r}")
    for size in shape:
        if int(size) != size or size < 1:
            raise ValueError(f"shape must be two ints >= 1, got {shape!r}")
    capacity, dim = int(shape[0]), int(shape[1])
    if capacity * dim * tf.float32.size > MAX_TABLE_BYTES:
        raise ValueError(
            f"a table of {capacity} rows of {dim} floats (embedding_vec_size) does not fit into "
            f"the {MAX_TABLE_BYTES} bytes that a process can address; lower "
            "max_vocabulary_size_per_gpu"
        )
    return capacity, dim


@tf.RegisterGradient("SokReadRows")
def _read_rows_gradient(op, gradient):
    del op
    return gradient, None
