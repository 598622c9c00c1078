# SPDX-License-Identifier: Apache-2.0
"""`DistributedEmbedding`: many embedding layers in one, with tables placed on ranks by a plan."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat.checkpoint.saver.tf_saver import save_tables_in_checkpoints
from sok_compat.distributed_embeddings.global_weights import GlobalWeights
from sok_compat.distributed_embeddings.input_parts import InputParts
from sok_compat.distributed_embeddings.owned_inputs import OwnedInputs, check_batches_of_ranks
from sok_compat.distributed_embeddings.planning.assignment import AUTO, checked_strategy
from sok_compat.distributed_embeddings.planning.placed_tables import (
    PlacedLayer,
    PlacedTables,
    TableLayer,
)
from sok_compat.distributed_embeddings.planning.strategy import (
    BY_COLUMNS,
    REPLICATED,
    DistEmbeddingStrategy,
)
from sok_compat.distributed_embeddings.planning.workload import Workload
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding, float_dtype
from sok_compat.distributed_embeddings.python.ops.embedding_lookup_ops import Ids
from sok_compat.distributed_embeddings.saved_tables import SavedTables
from sok_compat.ranks.current_job import start_job
from sok_compat.runtime import integrations
from sok_compat.runtime.known_words import KERAS_LAYER_WORDS, checks_words
from sok_compat.runtime.tf_versions import keras_3, members
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.tables import Table, connected_ranks

_LISTS_OF_LAYERS = ("dp_layers", "local_embedding_layers", "row_layers", "guest_layers")


class DistributedEmbedding(keras.layers.Layer):
    """Many embedding layers in one, with their tables spread over the ranks.

    API of distributed-embeddings. Each rank holds some of the tables, or parts of them, and looks
    up its part of the batch in all tables. A single group of lookups reads all tables that are cut
    by columns or rows. All ranks build the layer together and call it equally often.

    Attributes:
      strategy: the DistEmbeddingStrategy.
      dp_layers: layers whose tables are whole on every rank.
      local_embedding_layers: this rank's share of the tables cut by columns.
      row_layers: its parts of tables cut by rows. The weights are those of these three lists, in
        this order.
      guest_layers: on a rank that trains no table, one table of another rank; it has no rows here.
    """

    @checks_words(KERAS_LAYER_WORDS)
    def __init__(
        self,
        embeddings: Iterable[keras.layers.Layer],
        strategy: str = "basic",
        column_slice_threshold: int | None = None,
        row_slice_threshold: int | None = None,
        dp_input: bool = True,
        input_table_map: Iterable[int] | None = None,
        data_parallel_threshold: int | None = None,
        gpu_embedding_size: int | None = None,
        workload: Workload | None = None,
        **kwargs: Any,
    ) -> None:
        """Plans. All ranks arrive at the same plan without communicating.

        Args:
          embeddings: layers; only their configurations are used.
          strategy: see DistEmbeddingStrategy, as for all other arguments except dp_input. With one
            rank nothing is cut or copied.
          dp_input: True if each rank is given its part of the batch, for all inputs. False if it is
            given the batch of all ranks for the inputs in its strategy.input_ids_list, in that
            order; no table is then cut by rows or whole on every rank.
          workload: for strategy 'auto'; not in distributed-embeddings.
          **kwargs: for the Keras layer.

        Raises:
          ValueError: as DistEmbeddingStrategy; or a rank would have no table, except with 'auto'.
          NotImplementedError: strategy.uncut_tables, with several ranks and dp_input=False.
          ImportError: Horovod is installed but fails to load.
          RuntimeError: another rank does not build the layer.
        """
        checked_strategy(strategy)
        embeddings = list(embeddings)
        super().__init__(**{**kwargs, "dtype": float_dtype(kwargs.get("dtype")), "autocast": False})
        start_job(type(self).__name__)
        _tell_tensorflow_of_tables()
        self._ranks = connected_ranks(type(self).__name__)
        self.dp_input = dp_input
        cuts_rows = dp_input and self._ranks.size > 1
        self.strategy = DistEmbeddingStrategy(
            embeddings,
            self._ranks.size,
            strategy,
            input_table_map,
            column_slice_threshold,
            row_slice_threshold if cuts_rows else None,
            data_parallel_threshold if cuts_rows else None,
            gpu_embedding_size,
            workload,
            columns_only=not dp_input,
            copies_uncut=cuts_rows,
        )
        self._check_ranks()
        self._layers_given = _Given(embeddings)
        self.dp_layers = [
            self._layers_given.rebuilt(table, self.strategy.global_configs[table])
            for table in self.strategy.table_groups[REPLICATED]
        ]
        self._on_variables = self._check_can_be_cut()

    def _check_ranks(self):
        if self.strategy.strategy == AUTO:
            return
        if self.strategy.table_groups[BY_COLUMNS] and not all(self.strategy.table_ids):
            raise ValueError(
                "Not enough table after slicing to run on all worker."
                "Try decrease column_slice_threshold or decrease worker count"
            )

    def _check_can_be_cut(self):
        """The tables that may not be cut, since their own layers are called."""
        found = {*self.strategy.uncut_tables} - {*self.strategy.table_groups[REPLICATED]}
        if found and self._ranks.size > 1:
            raise NotImplementedError(
                f"the layers of the tables {sorted(found)} are not Embedding, or have a "
                "regularizer or a constraint, so that these tables must be whole on every rank, "
                "which dp_input=False does not allow"
            )
        return found

    def build(self, input_shape: Any) -> None:
        """Makes the tables. All ranks take part."""
        self._check_batch_sizes(input_shape)
        with tf.name_scope(f"{self.name}/"):
            self._tables = PlacedTables(
                self.strategy, self._layers_given.initializers(), self._ranks, self._on_variables
            )
            mine = self._tables.by_columns[self._ranks.rank]
            configs = self.strategy.local_configs[self._ranks.rank]
            self.local_embedding_layers = [
                self._local_layer(number, config, table)
                for number, (config, table) in enumerate(zip(configs, mine))
            ]
            cut = self.strategy.row_sliced_configs[self._ranks.rank]
            self.row_layers = [TableLayer(*each) for each in zip(cut, self._tables.by_rows)]
            self.guest_layers = self._guests()
        owned = not self.dp_input and self._ranks.size > 1
        placed = PlacedLayer(
            *(self.name, self.strategy, self._tables, self._ranks),
            *([*self.local_embedding_layers], [*self.dp_layers]),
        )
        self._inputs_of_tables = (OwnedInputs if owned else InputParts)(placed)
        self._global_weights = GlobalWeights(placed)
        for layer in self.dp_layers:
            layer.build(None) if isinstance(layer, Embedding) else None
        self.saved_tables = SavedTables(placed)
        self.saved_tables.note_slots_of_variables()
        self.built = True

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        """The layer's children, with `saved_tables` in place of the layers for checkpoints.

        The layers depend on the plan, `saved_tables` does not. A SavedModel keeps the layers, and
        therefore refuses their tables.
        """
        children = super()._trackable_children(save_type, **kwargs)
        left_out = _LISTS_OF_LAYERS if save_type == "checkpoint" else ("saved_tables",)
        return {name: child for name, child in children.items() if name not in left_out}

    def _guests(self) -> list[TableLayer]:
        """A table of another rank if this one trains none, else nothing.

        Without it this rank would compute no gradients, and the other ranks would wait for them.
        """
        trained = self._tables.trained()
        ranks = {rank for _, rank in trained}
        if self._ranks.size == 1 or not ranks or ranks & {None, self._ranks.rank}:
            return []
        first, _ = trained[0]
        return [TableLayer({"name": first.table_name}, first)]

    def _local_layer(
        self, number: int, config: dict[str, Any], table: Table | None
    ) -> keras.layers.Layer:
        if table is not None:
            return TableLayer(config, table)
        fused = self.strategy.plans[0].fused[number]
        first = self.strategy.table_groups[BY_COLUMNS][fused.slices[0].table]
        return self._layers_given.rebuilt(first, config)

    def _check_batch_sizes(self, input_shape):
        shapes = [tf.TensorShape(shape) for shape in _as_list(input_shape)]
        if not self.dp_input and self._ranks.size > 1:
            check_batches_of_ranks(shapes, self._ranks)
            return
        sizes = [shape.as_list()[0] for shape in shapes if shape.rank]
        if len({size for size in sizes if size is not None}) > 1:
            raise ValueError(f"All input need to have same batchsize. got {sizes}.")

    def call(self, inputs: Ids | Sequence[Ids]) -> list[tf.Tensor]:
        """Returns the rows of each input.

        Args:
          inputs: list with the ids of each input, for this rank's part of the batch: tensors or
            tf.RaggedTensors; also tf.SparseTensors with one rank or dp_input=False. With
            dp_input=False: only the inputs of this rank, but for the whole batch, that is, the
            samples of rank 0, then those of rank 1, and so on, equally many of each.

        Returns:
          A list with one tensor for each input of all tables, for this rank's part of the batch, as
          the input's own layer would return it. An exception with several ranks: ids [batch, 1] of
          a table cut by columns without a combiner give [batch, width].

        Raises:
          ValueError: wrong number of inputs; any error of the input's own layer; with
            dp_input=False, a table without a combiner gets other than one id for each sample.
          tf.errors.InvalidArgumentError: when run: an id is not a row; with several ranks and
            dp_input=False, batch sizes differ or are not divisible by the number of ranks.
        """
        inputs = self._checked(_as_list(inputs))
        outputs = self._inputs_of_tables.outputs(inputs)
        self.saved_tables.note_slots_of_variables()  # of layers that were built just now
        return [tf.cast(outputs[i], self.compute_dtype) for i in sorted(outputs)]

    def _checked(self, inputs: list[Any]) -> list[Ids]:
        """The inputs as integers; with one rank, in the order of input numbers."""
        order: Sequence[int] = range(len(self.strategy.input_table_map))
        if not self.dp_input:
            order = self.strategy.input_ids_list[self._ranks.rank]
        if len(inputs) != len(order):
            raise ValueError(
                f"Expect {list(order)} inputs, got {len(inputs)}.: DistributedEmbedding takes a "
                "list with one item for each input of its tables"
                + ("" if self.dp_input else " on this rank")
            )
        is_sparse = any(isinstance(one, tf.SparseTensor) for one in inputs)
        if is_sparse and self.dp_input and self._ranks.size > 1:
            raise ValueError(
                "Sparse tensor data-parallel input is not supported: give it a tf.RaggedTensor"
            )
        inputs = [_as_integers(one) for one in inputs]
        if self._ranks.size == 1:
            inputs = [one for _, one in sorted(zip(order, inputs), key=lambda pair: pair[0])]
        return inputs

    def save_own_variables(self, store: Any) -> None:
        """Saves to `.keras` and `.weights.h5` files, with one rank only.

        Raises:
          NotImplementedError: there are several ranks, each with its own tables.
        """
        if self._ranks.size > 1:
            raise NotImplementedError(
                f"a .keras or .weights.h5 file of {self.name!r} would hold this rank's tables "
                "alone: use save_weights with a path without an ending, tf.train.Checkpoint, or "
                "get_weights and set_weights of the layer, on all ranks"
            )
        super().save_own_variables(store)

    def get_weights(self, all_ranks: bool = False) -> list[np.ndarray]:
        """Returns the whole tables, in the order of the layers given. All ranks must call it.

        In graph mode it runs in the default session, after all weights have been initialized.

        Args:
          all_ranks: whether all ranks get the tables; otherwise ranks other than 0 get [].

        Returns:
          A list of float32 arrays [rows, columns].

        Raises:
          ValueError: the layer is not built.
          RuntimeError: in graph mode, there is no default session.
        """
        if not self.built:
            raise ValueError(f"get_weights of {self.name!r}: it has no weights before a call")
        return self._global_weights.read(all_ranks)

    def set_weights(
        self,
        weights: Sequence[np.ndarray | str | os.PathLike],
        chunk: int = 134217728,
        use_lock: bool = False,
    ) -> None:
        """Sets the rows of all tables; each rank takes its part. Optimizer state is kept.

        Args:
          weights: for each table, in the order of the layers given, an array [rows, columns] or
            the path of a .npy file, which is read in parts.
          chunk: most floats to copy at a time; more than 2**22 count as these.
          use_lock: whether ranks write one after the other; the same on all ranks.

        Raises:
          ValueError: the layer is not built; wrong number or shape of tables.
          RuntimeError: as get_weights.
        """
        if not self.built:
            raise ValueError(
                f"You called `set_weights(weights)` on layer {self.name!r} with a weight list of "
                f"length {len(weights)}, but the layer was expecting 0 weights. Call it once first."
            )
        self._global_weights.write(weights, chunk, use_lock)


class _Given:
    """The layers that the script gave, hidden from Keras, which would make them sub-layers."""

    def __init__(self, embeddings: list[keras.layers.Layer]) -> None:
        self._embeddings = embeddings

    def rebuilt(self, table: int, config: dict[str, Any]) -> keras.layers.Layer:
        """A new layer of the same class as the table's, with another configuration and the same
        `weights=`."""
        kind = type(self._embeddings[table])
        config = {key: value for key, value in config.items() if key != "cpu_offload"}
        if "dtype" in config:
            config["dtype"] = float_dtype(config["dtype"])
        layer = (Embedding if kind is keras.layers.Embedding else kind).from_config(config)
        arrays = _initial_weights(self._embeddings[table])
        if keras_3 is None:
            members.pass_initial_weights(layer, arrays)
        elif arrays is not None:
            layer.build(None)
            layer.set_weights(arrays)
        return layer

    def initializers(self) -> list[Any]:
        """The initializer of each table, its layer's `weights=` if given; None if it has none."""
        return [self._initializer(one) for one in self._embeddings]

    def _initializer(self, embedding: keras.layers.Layer) -> Any:
        arrays = _initial_weights(embedding)
        if arrays is None:
            return getattr(embedding, "embeddings_initializer", None)
        rows = np.asarray(arrays[0], np.float32)
        config = embedding.get_config()
        shape = config["input_dim"], config["output_dim"]
        if rows.shape != shape:
            raise ValueError(
                f"weights of the layer {embedding.name!r} must have the shape {shape} of its "
                f"table, got {rows.shape}"
            )
        return keras.initializers.Constant(rows)


def _initial_weights(layer: keras.layers.Layer) -> Any:
    """The arrays of the layer's `weights=`, by which Keras 3 has built it; or None."""
    if keras_3 is None:
        return members.initial_weights(layer)
    return layer.get_weights() if layer.built else None


def _as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _as_integers(ids: Any) -> Ids:
    if not isinstance(ids, (tf.RaggedTensor, tf.SparseTensor)):
        ids = tf.convert_to_tensor(ids)
    return ids if ids.dtype in (tf.int32, tf.int64) else tf.cast(ids, tf.int64)


def _tell_tensorflow_of_tables() -> None:
    """Needed on ranks without tables, too: they share those of others."""
    save_tables_in_checkpoints()
    integrations.expect_tables()
