# SPDX-License-Identifier: Apache-2.0
"""`EmbeddingVariable`: a table under DeepRec's names, in TF1 graphs."""

import dataclasses

import tensorflow as tf

from sok_compat.checkpoint.loading.init_from_checkpoint import initialize_tables_from_checkpoints
from sok_compat.checkpoint.parts.bucket_saveable import BucketSaveable
from sok_compat.checkpoint.saver.tf_saver import save_tables_in_checkpoints
from sok_compat.deeprec.variables.first_values import first_value_of
from sok_compat.deeprec.variables.key_histories import history_of, steps_to_live_of
from sok_compat.deeprec.variables.options import StorageType
from sok_compat.deeprec.variables.recorded_keys import RecordsKeys
from sok_compat.lookup.find_rows import WITH_GRADIENT
from sok_compat.lookup.group import Lookup, lookup_group
from sok_compat.lookup.keys import in_shape_of
from sok_compat.tables.placement import Placement
from sok_compat.tables.table import Table, connected_ranks
from sok_compat.tables.table_part import NUM_BUCKETS
from sok_compat.tables.words import Words

EMBEDDING_VARIABLES = "embedding_variables"  # collections
EV_INIT_VAR_OPS = "ev_init_var_ops"
EV_INIT_SLOT_OPS = "ev_init_slot_ops"
ASYNC_EMBEDDING_OUTPUT_TENSORS = "async_embedding_output_tensors"

KEY_DTYPES = {tf.int64: tf.int64.max, tf.int32: -1}  # {dtype: the key that DeepRec reserves}

_DENSE = (
    *("value", "read_value", "read_value_no_copy", "numpy", "initialized_value", "__array__"),
    *("assign", "assign_add", "assign_sub", "scatter_add", "scatter_sub", "scatter_update"),
    *("__getitem__", "_dense_var_to_tensor", "_read_variable_op"),
)


class EmbeddingVariable(RecordsKeys, Table):
    """Keys -> rows of `embedding_dim` float32, as many as come. API of DeepRec.

    `get_embedding_variable` makes it. Look keys up with `nn.group_embedding_lookup_sparse` and the
    other lookups of `nn`; a key gets its row in a step that computes its gradient, and gives what
    that row would start as in all others. Whatever takes it for a dense tensor raises.

    Attributes:
      shape: [embedding_dim].
      key_dtype_of_ids: tf.int64 or tf.int32; ids of either are taken.
      ev_option: the EmbeddingVariableOption.
      target_gpu: what scripts for SparseOperationKit set; nothing depends on it.
    """

    words = Words(
        initializer="the initializer of an embedding variable",
        without_index="an ordinary tf.Variable",
        look_up="with tf.nn.group_embedding_lookup_sparse or tf.nn.embedding_lookup",
        save="tf.train.Saver",
        restore="tf.train.Saver",
        others="those that are not in tf.GraphKeys.EMBEDDING_VARIABLES",
    )
    target_gpu = -1
    saver_layout = BucketSaveable

    def __init__(
        self,
        name,
        embedding_dim,
        key_dtype,
        initializer,
        trainable,
        collections,
        option,
        make_variable,
        steps_to_live=None,
        part=None,
        first_value=None,
    ):
        """Makes the table, in a graph.

        Args:
          name: without the current variable scope, made unique in the graph.
          embedding_dim: floats in a row, an int >= 1.
          key_dtype: one of KEY_DTYPES.
          initializer: as of get_embedding_variable.
          trainable: whether it is put into TRAINABLE_VARIABLES.
          collections: besides EMBEDDING_VARIABLES; None: GLOBAL_VARIABLES.
          option: an EmbeddingVariableOption.
          make_variable: makes ordinary variables, as tf.compat.v1.Variable.
          steps_to_live: as of get_embedding_variable.
          part: the TablePart that the name ends with; None: it is whole.
          first_value: that of a part that was made before; None: the initializer says it.

        Raises:
          ValueError: an argument out of range.
        """
        self.key_dtype_of_ids = key_dtype
        self.ev_option = option
        self.steps_to_live = steps_to_live_of(option, steps_to_live)
        placement = Placement.by_modulo(connected_ranks())
        self.part = part
        whole = name.removesuffix(part.suffix) if part else name
        if first_value is None:
            what = initializer, option.init, embedding_dim, self.words.initializer
            first_value = first_value_of(whole, *what, make_variable)
        if part:
            first_value = dataclasses.replace(first_value, name=whole)
        super().__init__(
            None,
            embedding_dim,
            first_value,
            name=name,
            seed=tf.compat.v1.get_default_graph().seed,
            trainable=trainable,
            placement=placement,
            collections=collections,
            history=history_of(option, steps_to_live, placement.ranks.size),
        )
        tf.compat.v1.add_to_collection(EMBEDDING_VARIABLES, self)
        tf.compat.v1.add_to_collection(EV_INIT_VAR_OPS, self.initializer)
        _tell_tensorflow_of_tables()

    @property
    def shape(self):
        """[embedding_dim]: the number of rows is that of the keys."""
        return tf.TensorShape([self.dim])

    @property
    def invalid_key(self):
        """The key that DeepRec reserves; here it is one as any other."""
        return KEY_DTYPES[self.key_dtype_of_ids]

    @property
    def storage_type(self):
        """The StorageType: DRAM or HBM."""
        return self.ev_option.storage_option.storage_type or StorageType.DRAM

    def total_count(self):
        """[rows of this rank, embedding_dim], an int64 tensor."""
        return tf.stack([self.num_keys(), self.dim])

    get_dynamic_shape = total_count

    def export(self):
        """What this rank holds.

        Returns:
          (keys [n] of key_dtype_of_ids, rows float32 [n, embedding_dim], versions int64, freqs
          int64), of keys that have rows. Versions and freqs are as of get_version and
          get_frequency, or [0] where these would raise.
        """
        keys, rows = super().export()
        return tf.cast(keys, self.key_dtype_of_ids), rows, *self.recorded(keys)

    def sparse_read(self, indices, name=None):
        """The row of each key; what tf.gather and tf.nn.embedding_lookup ask for.

        Args:
          indices: ids of any integer dtype and any shape.
          name: of the ops.

        Returns:
          float32 [*indices.shape, embedding_dim], differentiable by the variable.

        Raises:
          TypeError: ids are no integers.
        """
        with tf.name_scope(name or f"{self.table_name}_lookup"):
            ids = self.checked_ids(indices)
            (rows,) = lookup_group([Lookup(self, tf.reshape(ids, [-1]))], WITH_GRADIENT)
            return in_shape_of(ids, rows, self.dim)

    def checked_ids(self, ids):
        """`ids` as an int64 tensor.

        Raises:
          TypeError: they are no integers, or bags of them.
        """
        if isinstance(ids, (tf.SparseTensor, tf.RaggedTensor)):
            raise TypeError(
                f"the ids of the embedding variable {self.table_name} must be a dense tensor here, "
                f"got {type(ids).__name__}: tf.nn.group_embedding_lookup_sparse pools bags"
            )
        ids = tf.convert_to_tensor(ids)
        if not ids.dtype.is_integer:
            raise TypeError(
                f"the ids of the embedding variable {self.table_name} must be integers, got "
                f"{ids.dtype.name}"
            )
        return tf.cast(ids, tf.int64)

    def replace_initializer(self, op):
        """See the base class; also in EV_INIT_VAR_OPS."""
        collection = tf.compat.v1.get_collection_ref(EV_INIT_VAR_OPS)
        collection[collection.index(self.initializer)] = op
        super().replace_initializer(op)

    def _fetched_rows(self, handle, shape):
        """Fails when a session fetches it, as a variable's value is fetched."""
        refuse = tf.debugging.Assert(False, [_refusal("session.run", self.table_name)])
        with tf.control_dependencies([refuse]):
            return tf.identity(super()._fetched_rows(handle, shape))


def _tell_tensorflow_of_tables():
    """What saves variables, or makes others of them, treats tables as such from now on."""
    save_tables_in_checkpoints()
    initialize_tables_from_checkpoints()


def _refusal(method, table_name):
    return (
        f"{method} of the embedding variable {table_name} as a dense tensor: it has a row for each "
        "key that came, so look keys up (tf.nn.group_embedding_lookup_sparse, "
        "tf.nn.embedding_lookup), or take export()"
    )


def _raising(method):
    def refuse(self, *args, **kwargs):
        del args, kwargs
        raise NotImplementedError(_refusal(method, self.table_name))

    refuse.__name__ = method
    return refuse


for _method in _DENSE:
    setattr(EmbeddingVariable, _method, _raising(_method))


class PartitionedEmbeddingVariable:
    """Embedding variables that share the keys: part floormod(key, 1000) % number of parts has it.

    API of DeepRec. Iterable.

    Attributes:
      name: without '/part_<i>'.
      table_parts: the EmbeddingVariables.
    """

    def __init__(self, name, parts):
        """Takes the parts in order, at least one."""
        self.name = name
        self.table_parts = list(parts)

    def __iter__(self):
        return iter(self.table_parts)

    def __len__(self):
        return len(self.table_parts)

    @property
    def shape(self):
        """[embedding_dim]"""
        return self.table_parts[0].shape

    get_shape = shape.fget

    @property
    def dtype(self):
        """tf.float32"""
        return self.table_parts[0].dtype

    def checked_ids(self, ids):
        """As of EmbeddingVariable."""
        return self.table_parts[0].checked_ids(ids)

    def sparse_read(self, indices, name=None):
        """As of EmbeddingVariable."""
        with tf.name_scope(name or "partitioned_lookup"):
            ids = self.checked_ids(indices)
            rows = self._of_parts(
                ids,
                lambda keys: lookup_group(
                    [Lookup(part, of_part) for part, of_part in zip(self, keys)], WITH_GRADIENT
                ),
            )
            return in_shape_of(ids, rows, self.shape[0])

    def get_frequency(self, ids):
        """As of EmbeddingVariable."""
        return self._known_of(ids, "get_frequency")

    def get_version(self, ids):
        """As of EmbeddingVariable."""
        return self._known_of(ids, "get_version")

    def _known_of(self, ids, method):
        ids = self.checked_ids(ids)
        known = self._of_parts(
            ids,
            lambda keys: [getattr(part, method)(of_part) for part, of_part in zip(self, keys)],
        )
        return tf.reshape(known, tf.shape(ids))

    def _of_parts(self, ids, ask):
        """What `ask` gives for the ids of each part, in the order of the flat ids."""
        flat = tf.reshape(ids, [-1])
        part_of_id = tf.cast(tf.math.floormod(flat, NUM_BUCKETS) % len(self), tf.int32)
        places = tf.dynamic_partition(tf.range(tf.size(flat)), part_of_id, len(self))
        return tf.dynamic_stitch(places, ask(tf.dynamic_partition(flat, part_of_id, len(self))))

    def total_count(self):
        """[rows of this rank in all parts, embedding_dim], an int64 tensor."""
        return tf.stack([tf.add_n([p.num_keys() for p in self]), self.shape.as_list()[0]])


NAMES = {
    "EmbeddingVariable": EmbeddingVariable,
    "GraphKeys.ASYNC_EMBEDDING_OUTPUT_TENSORS": ASYNC_EMBEDDING_OUTPUT_TENSORS,
    "GraphKeys.EMBEDDING_VARIABLES": EMBEDDING_VARIABLES,
    "GraphKeys.EV_INIT_SLOT_OPS": EV_INIT_SLOT_OPS,
    "GraphKeys.EV_INIT_VAR_OPS": EV_INIT_VAR_OPS,
}
