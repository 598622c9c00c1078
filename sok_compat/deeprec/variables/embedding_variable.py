# SPDX-License-Identifier: Apache-2.0
"""`EmbeddingVariable`: a table under DeepRec's names, in TF1 graphs."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.loading.init_from_checkpoint import initialize_tables_from_checkpoints
from sok_compat.checkpoint.parts.bucket_saveable import BucketSaveable
from sok_compat.checkpoint.saver.tf_saver import save_tables_in_checkpoints
from sok_compat.deeprec.variables.first_values import first_value_of
from sok_compat.deeprec.variables.key_histories import (
    history_of,
    l2_threshold_of,
    steps_to_live_of,
)
from sok_compat.deeprec.variables.options import (
    EmbeddingVariableOption,
    InitializerOfRows,
)
from sok_compat.deeprec.variables.recorded_keys import RecordsKeys
from sok_compat.deeprec.variables.storage_option import StorageType
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.initial_rows import InitialRows
from sok_compat.lookup.keys import in_shape_of, int32_keys, integer_keys
from sok_compat.lookup.new_keys import WITH_GRADIENT, NewKeys
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.tables.first_value import FirstValue
from sok_compat.tables.known_tables import connected_ranks
from sok_compat.tables.placement import Placement
from sok_compat.tables.stored.description import BUCKETS
from sok_compat.tables.stored.storage import Storage
from sok_compat.tables.stored.table_part import NUM_BUCKETS, TablePart
from sok_compat.tables.table import Table
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
    """Keys -> rows of `embedding_dim` float32, without a limit. API of DeepRec.

    `get_embedding_variable` makes it. Look up keys with `nn.group_embedding_lookup_sparse` and
    other lookups of `nn`. A key gets a row in the first step that computes its gradient; until
    then, lookups give the row's first values. Use as a dense tensor raises.

    Attributes:
      shape: [embedding_dim].
      key_dtype_of_ids: tf.int64 or tf.int32; lookups accept both, ids that fit in it.
      ev_option: the EmbeddingVariableOption.
      target_gpu: scripts for SparseOperationKit set it; ignored.
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

    def __init__(
        self,
        name: str,
        embedding_dim: int,
        key_dtype: tf.DType,
        initializer: InitializerOfRows,
        trainable: bool,
        collections: Sequence[str] | None,
        option: EmbeddingVariableOption,
        steps_to_live: int | None = None,
        part: TablePart | None = None,
        first_value: FirstValue | None = None,
        row_dtype: tf.DType = tf.float32,
    ) -> None:
        """Makes the table, in a graph.

        Args:
          name: without the current variable scope; made unique in the graph.
          embedding_dim: floats in a row, an int >= 1.
          key_dtype: one of KEY_DTYPES.
          initializer, steps_to_live: as for get_embedding_variable.
          trainable: whether to add it to TRAINABLE_VARIABLES.
          collections: in addition to EMBEDDING_VARIABLES; None: GLOBAL_VARIABLES.
          option: an EmbeddingVariableOption.
          part: the TablePart, with which the name ends; None: not partitioned.
          first_value: the FirstValue of the first part; None: made from the initializer.
          row_dtype: of the numbers in rows.

        Raises:
          ValueError: an argument out of range.
        """
        self.key_dtype_of_ids, self.ev_option = key_dtype, option
        self.steps_to_live = steps_to_live_of(option, steps_to_live)
        placement = Placement.by_modulo(connected_ranks())
        whole = name.removesuffix(part.suffix) if part else name
        seed = tf.compat.v1.get_default_graph().seed
        if first_value is None:
            drawn_by = zlib.crc32(f"{seed} {whole}".encode()) >> 1
            first_value = first_value_of(
                initializer, option.init, embedding_dim, self.words.initializer, drawn_by
            )
        if part:
            first_value = dataclasses.replace(first_value, name=whole)
        super().__init__(
            None,
            embedding_dim,
            first_value,
            row_dtype=row_dtype,
            name=name,
            seed=seed,
            trainable=trainable,
            placement=placement,
            collections=collections,
            history=history_of(option, steps_to_live, placement.ranks.size),
            storage=self._in_buckets(part),
            **option.storage_option.files(),
        )
        tf.compat.v1.add_to_collection(EMBEDDING_VARIABLES, self)
        tf.compat.v1.add_to_collection(EV_INIT_VAR_OPS, self.initializer)
        _tell_tensorflow_of_tables()

    def _in_buckets(self, part):
        described = {
            "layout": BUCKETS,
            "key_dtype_of_ids": self.key_dtype_of_ids.name,
            "part": part and dataclasses.astuple(part),
            "evicts": (self.steps_to_live, l2_threshold_of(self.ev_option)),
        }
        return Storage(BucketSaveable, part, described=described)

    @property
    def shape(self) -> tf.TensorShape:
        """[embedding_dim]: the number of rows changes with the keys."""
        return tf.TensorShape([self.dim])

    @property
    def invalid_key(self) -> int:
        """The key that DeepRec reserves; here it is an ordinary key."""
        return KEY_DTYPES[self.key_dtype_of_ids]

    @property
    def storage_type(self) -> StorageType:
        """The StorageType that was asked for; see StorageOption."""
        return self.ev_option.storage_option.storage_type or StorageType.DRAM

    def total_count(self) -> tf.Tensor:
        """[rows on this rank, embedding_dim], an int64 tensor."""
        return tf.stack([self.num_keys(), self.dim])

    get_dynamic_shape = total_count

    def export(  # type: ignore[override]  # a Table gives keys and rows
        self,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """The keys and rows of this rank.

        Returns:
          (keys [n] of key_dtype_of_ids, rows float32 [n, embedding_dim], versions int64 [n], freqs
          int64 [n]), of keys that have rows. Versions and freqs are those of get_version and
          get_frequency, or [0] where these raise.
        """
        keys, rows = super().export()
        return tf.cast(keys, self.key_dtype_of_ids), rows, *self.recorded(keys)

    def sparse_read(
        self, indices: Any, name: str | None = None, initial_rows: InitialRows | None = None
    ) -> tf.Tensor:
        """The row of each key; tf.gather and tf.nn.embedding_lookup call this.

        Args:
          indices: ids of any integer dtype and any shape.
          name: name of the ops.
          initial_rows: the InitialRows of the flat ids, which keys without a row read and start
            with; None: the variable's first values.

        Returns:
          float32 [*indices.shape, embedding_dim], differentiable by the variable.

        Raises:
          TypeError: ids are not integers.
        """
        if self.shows_rows():  # to an optimizer, which has no keys
            return super().sparse_read(indices, name)
        with tf.name_scope(name or f"{self.table_name}_lookup"):
            ids = self.checked_ids(indices)
            new_keys = NewKeys(initial_rows=initial_rows)
            lookup = Lookup(self, tf.reshape(ids, [-1]), new_keys=new_keys)
            (rows,) = lookup_group([lookup], WITH_GRADIENT)
            return in_shape_of(ids, rows, self.dim)

    def checked_ids(self, ids: Any) -> tf.Tensor:
        """`ids` as an int64 tensor.

        Raises:
          TypeError: ids are not integers, or not a dense tensor.
          tf.errors.InvalidArgumentError: when run: an id does not fit in key_dtype_of_ids, so that
            it could not be saved.
        """
        called = f"the ids of the embedding variable {self.table_name}"
        if not isinstance(ids, (tf.SparseTensor, tf.RaggedTensor)):  # which raise
            ids = tf.convert_to_tensor(ids)
        keys = integer_keys(ids, called, "tf.nn.group_embedding_lookup_sparse")
        if self.key_dtype_of_ids == tf.int64:
            return keys
        return int32_keys(ids, keys, called, "its key_dtype; use int64")

    def replace_initializer(self, op: tf.Operation) -> None:
        """See the base class; also replaces it in EV_INIT_VAR_OPS."""
        collection = tf.compat.v1.get_collection_ref(EV_INIT_VAR_OPS)
        collection[collection.index(self.initializer)] = op
        super().replace_initializer(op)

    def _fetched_rows(self, handle, shape):
        """Raises when a session fetches the variable."""
        refuse = tf.debugging.Assert(False, [_refusal("session.run", self.table_name)])
        with tf.control_dependencies([refuse]):
            return tf.identity(super()._fetched_rows(handle, shape))


def _tell_tensorflow_of_tables() -> None:
    """Makes TensorFlow's savers, initializers from checkpoints, and optimizers handle tables."""
    save_tables_in_checkpoints()
    initialize_tables_from_checkpoints()


def _refusal(method: str, table_name: str) -> str:
    return (
        f"{method} is not supported on the embedding variable {table_name}, which is not a dense "
        "tensor: look up keys with tf.nn.group_embedding_lookup_sparse or tf.nn.embedding_lookup, "
        "train it with an optimizer of sok_compat.deeprec.train, or use export()"
    )


def _raising(method: str) -> Callable[..., Any]:
    def refuse(self, *args, **kwargs):
        del args, kwargs
        raise NotImplementedError(_refusal(method, self.table_name))

    refuse.__name__ = method
    return refuse


for _method in _DENSE:
    setattr(EmbeddingVariable, _method, _raising(_method))


class PartitionedEmbeddingVariable:
    """Embedding variables that share keys: part floormod(key, 1000) % number of parts has a key.

    API of DeepRec. Iterable.

    Attributes:
      name: without '/part_<i>'.
      table_parts: the EmbeddingVariables.
    """

    def __init__(self, name: str, parts: Sequence[EmbeddingVariable]) -> None:
        """Takes the parts in order, at least one."""
        self.name = name
        self.table_parts = list(parts)

    def __iter__(self) -> Iterator[EmbeddingVariable]:
        return iter(self.table_parts)

    def __len__(self) -> int:
        return len(self.table_parts)

    @property
    def shape(self) -> tf.TensorShape:
        """[embedding_dim]"""
        return self.table_parts[0].shape

    def get_shape(self) -> tf.TensorShape:
        """[embedding_dim]"""
        return self.shape

    @property
    def dtype(self) -> tf.DType:
        """tf.float32"""
        return self.table_parts[0].dtype

    @property
    def handle(self) -> tf.Tensor:
        """Raises: tf.scatter_update and its like write rows by index."""
        raise NotImplementedError(_refusal("a write by index", self.name))

    _lazy_read = handle  # which they ask for first

    def checked_ids(self, ids: Any) -> tf.Tensor:
        """As EmbeddingVariable.checked_ids."""
        return self.table_parts[0].checked_ids(ids)

    def sparse_read(
        self, indices: Any, name: str | None = None, initial_rows: InitialRows | None = None
    ) -> tf.Tensor:
        """As EmbeddingVariable.sparse_read."""

        def read(keys, places):
            initial = [initial_rows and initial_rows.at(where) for where in places]
            lookups = [
                Lookup(*item, new_keys=NewKeys(initial_rows=rows))
                for *item, rows in zip(self, keys, initial)
            ]
            return lookup_group(lookups, WITH_GRADIENT)

        with tf.name_scope(name or "partitioned_lookup"):
            ids = self.checked_ids(indices)
            return in_shape_of(ids, self._of_parts(ids, read), self.shape[0])

    def get_frequency(self, ids: Any) -> tf.Tensor:
        """As EmbeddingVariable.get_frequency."""
        return self._known_of(ids, "get_frequency")

    def get_version(self, ids: Any) -> tf.Tensor:
        """As EmbeddingVariable.get_version."""
        return self._known_of(ids, "get_version")

    def _known_of(self, ids, method):
        ids = self.checked_ids(ids)
        known = self._of_parts(
            ids,
            lambda keys, _: [getattr(part, method)(of_part) for part, of_part in zip(self, keys)],
        )
        return tf.reshape(known, tf.shape(ids))

    def _of_parts(
        self,
        ids: tf.Tensor,
        ask: Callable[[list[tf.Tensor], list[tf.Tensor]], list[tf.Tensor]],
    ) -> tf.Tensor:
        """The results of `ask`(ids of each part, their places) in the order of the flat ids."""
        flat = tf.reshape(ids, [-1])
        part_of_id = tf.cast(tf.math.floormod(flat, NUM_BUCKETS) % len(self), tf.int32)
        places = tf.dynamic_partition(tf.range(tf.size(flat)), part_of_id, len(self))
        of_parts = tf.dynamic_partition(flat, part_of_id, len(self))
        return tf.dynamic_stitch(places, ask(of_parts, places))

    def total_count(self) -> tf.Tensor:
        """[rows on this rank in all parts, embedding_dim], an int64 tensor."""
        return tf.stack([tf.add_n([p.num_keys() for p in self]), self.shape.as_list()[0]])
