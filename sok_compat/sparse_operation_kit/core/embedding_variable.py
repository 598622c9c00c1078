# SPDX-License-Identifier: Apache-2.0
"""`EmbeddingVariable`: a table under SparseOperationKit's names."""

from __future__ import annotations

import weakref
from typing import Any

import tensorflow as tf

from sok_compat.runtime.checked_values import checked_count
from sok_compat.runtime.known_words import VARIABLE_WORDS, checks_words
from sok_compat.runtime.tf_versions import distribute
from sok_compat.sparse_operation_kit.core.initialization import current_initialization
from sok_compat.tables.first_value import Initializer
from sok_compat.tables.placement import Placement
from sok_compat.tables.table import Table
from sok_compat.tables.table_arguments import MAX_TABLE_BYTES, checked_row_dtype
from sok_compat.tables.words import Words

# {id of emb_handle: EmbeddingVariable}
_by_handle: weakref.WeakValueDictionary[int, EmbeddingVariable] = weakref.WeakValueDictionary()


class EmbeddingVariable(Table):
    """A table: keys -> rows of `dim` float32. API of SparseOperationKit 1.x.

    `handle` (= `tf_handle`) is the resource variable of its rows, `emb_handle` the table itself;
    see Table. Its ranks and seed come from `sok.Init`. `tf.compat.v1.train.Saver` saves it with its
    `slots`; `sok.Saver` writes SparseOperationKit's files.
    """

    words = Words(
        initializer="the initializer of a table (embedding_initializer)",
        raise_capacity="raise the capacity (max_vocabulary_size_per_gpu)",
        without_index="use_hashtable=False",
        look_up="with the layer",
        save="sok.Saver",
        restore="sok.Saver().restore_from_file",
        set_rows="sok.Saver().load_embedding_values",
        clip="sok.clip_by_global_norm",
        others="sok.split_embedding_variable_from_others(variables)[1]",
    )
    capacity: int  # never None

    @checks_words(VARIABLE_WORDS)
    def __init__(
        self,
        shape: list[int],
        local_replica_id: int,
        initializer: Initializer = None,
        trainable: bool = True,
        use_hashtable: bool = True,
        name: str = "EmbeddingVariable",
        dtype: tf.DType | str | None = None,
        key_dtype: tf.DType | str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Makes the table; in a graph, its ops.

        Args:
          shape: list [capacity, dim]; the capacity is in rows on this rank.
          local_replica_id: kept as an attribute; the rank comes from `sok.Init`.
          initializer: see `parse_initializer`.
          trainable: whether to add it to TRAINABLE_VARIABLES.
          use_hashtable: False: the row of a key is key // number of ranks.
          name: made unique in the current name scope of the default graph, also in eager mode.
          dtype: of the rows in memory: float32, bfloat16, float16 or None, the default (see
            `sok.Init`).
          key_dtype: tf.int64 (also None) or tf.uint32, or their names.
          *args: ignored, as in SparseOperationKit.
          **kwargs: other arguments of tf.Variable, ignored, as in SparseOperationKit.

        Raises:
          RuntimeError: `sok.Init` has not been called, or a tf.distribute strategy has several
            replicas.
          TypeError: an argument that tf.Variable does not have.
          ValueError: shape, dtype or key_dtype is out of range.
        """
        del args, kwargs
        capacity, dim = _checked_shape(shape)
        row_dtype = checked_row_dtype(dtype, "the dtype of a table")
        initialization = current_initialization("EmbeddingVariable")
        self.m_initializer = initializer
        self.m_local_replica_id = local_replica_id
        self.m_trainable = trainable
        self.m_embedding_layer: Any = None  # an EmbeddingLayerHandle
        self._is_of_replica = distribute.has_strategy()
        super().__init__(
            capacity,
            dim,
            initializer,
            row_dtype=row_dtype,
            key_dtype=key_dtype,
            use_hash_index=use_hashtable,
            name=name,
            seed=initialization.seed,
            trainable=trainable,
            placement=Placement.by_modulo(initialization.ranks),
        )
        _by_handle[id(self.emb_handle)] = self
        if tf.is_symbolic_tensor(self.emb_handle):
            initialization.tables.append(self.description())

    def kind(self) -> str:
        """Returns Table's `kind` in SparseOperationKit's words."""
        return super().kind().replace("use_hash_index", "use_hashtable")

    @classmethod
    def CreateInstances(cls, *args: Any, **kwargs: Any) -> EmbeddingVariable:
        """Makes one instance, with local_replica_id 0, since a process has one device."""
        # Callers give at most the shape by position, which mypy cannot know.
        return cls(*args, local_replica_id=0, **kwargs)  # type: ignore[misc]

    @classmethod
    def of_handle(cls, handle: tf.Tensor) -> EmbeddingVariable | None:
        """Returns the table with that `emb_handle`, or None."""
        return _by_handle.get(id(handle))

    @property
    def m_var_name(self) -> str:
        """The name without ':0'."""
        return self.table_name

    @property
    def values(self) -> tuple[EmbeddingVariable]:
        """The variable of each replica: this one.

        Raises:
          AttributeError: it was made outside the scope of a tf.distribute strategy.
        """
        if not self._is_of_replica:
            raise AttributeError(f"{self.m_var_name} was made without a strategy: it has no values")
        return (self,)

    @property
    def emb_handle(self) -> tf.Tensor:
        """The table's handle."""
        return self.table_handle

    m_handle = emb_handle

    @property
    def tf_handle(self) -> tf.Tensor:
        """The handle of the rows."""
        return self.handle

    @property
    def m_unique_id(self) -> str:
        """Unique in the process."""
        return self._unique_id

    @property
    def m_use_hashtable(self) -> bool:
        """Whether any key fits."""
        return self.use_hash_index

    @property
    def m_key_dtype(self) -> tf.DType:
        """tf.int64 or tf.uint32."""
        return self.key_dtype

    @property
    def m_dtype(self) -> tf.DType:
        """The dtype of lookups, tf.float32."""
        return tf.float32

    @property
    def m_shape_per_gpu(self) -> list[int | None]:
        """[capacity, dim]"""
        return [self.capacity, self.dim]

    @property
    def m_initial_value(self) -> tf.Tensor | str:
        """A tensor if an initializer makes the whole table, else the name of the first value."""
        return str(self.first_value) if self.initial_rows is None else self.initial_rows

    @property
    def embedding_layer(self) -> Any:
        """The handle that `set_embedding_layer` was given.

        Raises:
          ValueError: set_embedding_layer has not been called.
        """
        if self.m_embedding_layer is None:
            raise ValueError(
                f"{self.m_var_name} has no embedding layer yet: call set_embedding_layer"
            )
        return self.m_embedding_layer

    def set_embedding_layer(self, embedding_layer: Any) -> None:
        """Sets the handle of the layer that reads this table, once.

        Raises:
          ValueError: the table already has a handle.
        """
        if self.m_embedding_layer is not None:
            raise ValueError(f"{self.m_var_name} already has an embedding layer")
        self.m_embedding_layer = embedding_layer


def _checked_shape(shape: Any) -> tuple[int, int]:
    if not isinstance(shape, list) or len(shape) != 2:
        raise ValueError(f"shape must be a list [capacity, dim], got {shape!r}")
    capacity, dim = [checked_count(f"each size of the shape {shape!r}", size, 1) for size in shape]
    if capacity * dim * tf.float32.size > MAX_TABLE_BYTES:
        raise ValueError(
            f"a table of {capacity} rows of {dim} floats (embedding_vec_size) does not fit into "
            f"the {MAX_TABLE_BYTES} bytes that a process can address; lower "
            "max_vocabulary_size_per_gpu"
        )
    return capacity, dim
