# SPDX-License-Identifier: Apache-2.0
"""`DistributedEmbedding`: many embedding layers in one, their tables on ranks as a plan says."""

import tensorflow as tf

from sok_compat.checkpoint.tf_saver import save_tables_in_checkpoints
from sok_compat.distributed_embeddings.assignment import AUTO, checked_strategy
from sok_compat.distributed_embeddings.global_weights import GlobalWeights
from sok_compat.distributed_embeddings.input_parts import InputParts
from sok_compat.distributed_embeddings.owned_inputs import OwnedInputs, check_batches_of_ranks
from sok_compat.distributed_embeddings.placed_tables import PlacedTables, TableLayer
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding
from sok_compat.distributed_embeddings.saved_tables import SavedTables
from sok_compat.distributed_embeddings.strategy import (
    BY_COLUMNS,
    REPLICATED,
    DistEmbeddingStrategy,
)
from sok_compat.runtime.horovod_ranks import start_horovod
from sok_compat.runtime.tf_versions import keras
from sok_compat.tables import connected_ranks
from sok_compat.training.keras_optimizers import update_rows_in_use_in_keras
from sok_compat.training.stock_slots import make_slots_as_planes

_LISTS_OF_LAYERS = ("dp_layers", "local_embedding_layers", "row_layers", "guest_layers")


class DistributedEmbedding(keras.layers.Layer):
    """Embedding layers, of which each rank has some tables, or parts of them, and looks up its part
    of the batch in all. API of distributed-embeddings.

    Tables that are cut by columns or rows are read by one group of lookups, whatever their number.
    All ranks build the layer together, and call it as often.

    Attributes:
      strategy: the DistEmbeddingStrategy.
      dp_layers: layers whose tables are whole on every rank.
      local_embedding_layers: this rank's tables of those cut by columns.
      row_layers: its parts of tables cut by rows. The weights are these three's, in this order.
      guest_layers: on a rank that trains no table, one of another rank's, of which it has no row.
    """

    def __init__(
        self,
        embeddings,
        strategy="basic",
        column_slice_threshold=None,
        row_slice_threshold=None,
        dp_input=True,
        input_table_map=None,
        data_parallel_threshold=None,
        gpu_embedding_size=None,
        workload=None,
        **kwargs,
    ):
        """Plans; on all ranks alike, without asking the others.

        Args:
          embeddings: layers, of which only the configurations are used.
          strategy: see DistEmbeddingStrategy, as all that follow but dp_input; with one rank
            nothing is cut or copied.
          dp_input: whether each rank is given its part of the batch of all inputs; False: the
            batch of all ranks, of the inputs in strategy.input_ids_list of the rank, in that order.
            No table is then cut by rows, or whole on every rank.
          workload: of strategy 'auto', which distributed-embeddings does not have.
          **kwargs: for the Keras layer.

        Raises:
          ValueError: as DistEmbeddingStrategy; a rank would have no table, except with 'auto'.
          NotImplementedError: with several ranks, a layer to be cut that is no Embedding, or has a
            regularizer or a constraint.
          ImportError: Horovod is installed and fails.
          RuntimeError: another rank does not come here.
        """
        checked_strategy(strategy)
        super().__init__(**{**kwargs, "autocast": False})
        start_horovod(type(self).__name__)
        save_tables_in_checkpoints()
        update_rows_in_use_in_keras()
        make_slots_as_planes()
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
        """The tables, of those to be cut, whose layers are called as they are."""
        found = {*self.strategy.uncut_tables} - {*self.strategy.table_groups[REPLICATED]}
        if found and self._ranks.size > 1:
            raise NotImplementedError(
                f"the layers of the tables {sorted(found)} can be on one rank, or whole on every "
                "rank (data_parallel_threshold, strategy 'auto'), only: they are no Embedding, or "
                "have a regularizer or a constraint"
            )
        return found

    def build(self, input_shape):
        """Makes the tables; all ranks take part."""
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
        self._inputs_of_tables = (OwnedInputs if owned else InputParts)(
            self.strategy, self._tables, self._ranks, self.name, self.local_embedding_layers
        )
        self._global_weights = GlobalWeights(self, self._tables, self._ranks)
        for layer in self.dp_layers:
            layer.build(None) if isinstance(layer, Embedding) else None
        self.saved_tables = SavedTables(self, self._tables, self._ranks)
        self.saved_tables.note_slots_of_variables()
        self.built = True

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        """For checkpoints by the numbers of the tables given: another plan has other layers."""
        children = super()._trackable_children(save_type, **kwargs)
        if save_type != "checkpoint":
            return children
        copied = zip(self.strategy.table_groups[REPLICATED], self.dp_layers)
        return {
            **{name: child for name, child in children.items() if name not in _LISTS_OF_LAYERS},
            **{f"copied_table{table}": layer for table, layer in copied},
        }

    def _guests(self):
        """A table of another rank, where this one trains none: else nothing would ask for gradients
        here, for which the ranks that do would wait."""
        trained = self._tables.trained()
        ranks = {rank for _, rank in trained}
        if self._ranks.size == 1 or not ranks or ranks & {None, self._ranks.rank}:
            return []
        first, _ = trained[0]
        return [TableLayer({"name": first.table_name}, first)]

    def _local_layer(self, number, config, table):
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
        sizes = [shape[0] for shape in shapes if shape.rank]
        if len({size for size in sizes if size is not None}) > 1:
            raise ValueError(f"All input need to have same batchsize. got {sizes}.")

    def call(self, inputs):
        """The rows of each input.

        Args:
          inputs: list, for each input its ids: a tensor, or a tf.RaggedTensor, or with one rank or
            without dp_input a tf.SparseTensor; of this rank's part of the batch. Without dp_input:
            the inputs of this rank alone, of the whole batch: the samples of rank 0, then those of
            rank 1, and so on, as many for each.

        Returns:
          A list of tensors, one for each input of all tables, of this rank's part of the batch, as
          its layer would give; with several ranks, ids [batch, 1] of a table that is cut by columns
          and has no combiner give [batch, width].

        Raises:
          ValueError: another number of inputs, or what the input's layer would raise; without
            dp_input, ids of a table without a combiner that are not one for each sample.
          tf.errors.InvalidArgumentError: when run: an id that is no row; on several ranks without
            dp_input, batches of other sizes, or one that cannot be divided among ranks.
        """
        inputs = self._checked(_as_list(inputs))
        outputs = [None] * len(self.strategy.input_table_map)
        groups = zip(self.strategy.input_groups[REPLICATED], self.strategy.map_groups[REPLICATED])
        for i, table in groups:
            outputs[i] = self.dp_layers[table](inputs[i])
        for i, output in self._inputs_of_tables.outputs(inputs).items():
            outputs[i] = output
        self.saved_tables.note_slots_of_variables()  # of layers that their call has built
        compute_dtype = self.compute_dtype or "float32"
        return [tf.cast(output, compute_dtype) for output in outputs]

    def _checked(self, inputs):
        """The inputs as integers; with one rank, in their own order."""
        order = range(len(self.strategy.input_table_map))
        if not self.dp_input:
            order = self.strategy.input_ids_list[self._ranks.rank]
        if len(inputs) != len(order):
            raise ValueError(
                f"Expect {list(order)} inputs, got {len(inputs)}.: DistributedEmbedding takes a "
                "list with one for each input of its tables"
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

    def save_own_variables(self, store):
        """For `.keras` and `.weights.h5` files, with one rank.

        Raises:
          NotImplementedError: there are several, of which each has its own tables.
        """
        if self._ranks.size > 1:
            raise NotImplementedError(
                f"a .keras or .weights.h5 file of {self.name!r} would hold this rank's tables "
                "alone: use save_weights with a path without an ending, tf.train.Checkpoint, or "
                "get_weights and set_weights of the layer, on all ranks"
            )
        super().save_own_variables(store)

    def get_weights(self, all_ranks=False):
        """The whole tables, in the order of the layers given; all ranks have to call it. In graph
        mode in the default session, in which all weights have been initialized.

        Args:
          all_ranks: False: the ranks other than 0 get an empty list.

        Returns:
          A list of float32 arrays [rows, columns].

        Raises:
          ValueError: the layer is not built.
          RuntimeError: in graph mode, there is no default session; or its graph is final, and
            nobody has read or set weights before.
        """
        if not self.built:
            raise ValueError(f"get_weights of {self.name!r}: it has no weights before a call")
        return self._global_weights.read(all_ranks)

    def set_weights(self, weights, chunk=134217728, use_lock=False):
        """Sets the rows of all tables; each rank takes its part. State of optimizers stays.

        Args:
          weights: for each table, in the order of the layers given, an array [rows, columns], or
            the path of a .npy file, of which only parts are read at a time.
          chunk: most floats that are copied at a time.
          use_lock: whether ranks come one after the other; all have to say the same.

        Raises:
          ValueError: the layer is not built; another number of tables, or another shape.
          RuntimeError: as get_weights.
        """
        if not self.built:
            raise ValueError(
                f"You called `set_weights(weights)` on layer {self.name!r} with a weight list of "
                f"length {len(weights)}, but the layer was expecting 0 weights. Call it once first."
            )
        self._global_weights.write(weights, chunk, use_lock)


class _Given:
    """The layers of the script; Keras does not take them for sub-layers."""

    def __init__(self, embeddings):
        self._embeddings = list(embeddings)

    def rebuilt(self, table, config):
        """A new layer like that of a table, of another configuration."""
        kind = type(self._embeddings[table])
        config = {key: value for key, value in config.items() if key != "cpu_offload"}
        return (Embedding if kind is keras.layers.Embedding else kind).from_config(config)

    def initializers(self):
        """Of each table."""
        return [getattr(one, "embeddings_initializer", None) for one in self._embeddings]


def _as_list(values):
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _as_integers(ids):
    if not isinstance(ids, (tf.RaggedTensor, tf.SparseTensor)):
        ids = tf.convert_to_tensor(ids)
    return ids if ids.dtype in (tf.int32, tf.int64) else tf.cast(ids, tf.int64)
