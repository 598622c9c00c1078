# SPDX-License-Identifier: Apache-2.0
"""`DistributedEmbedding`: many embedding layers in one, their tables on ranks as a plan says."""

import tensorflow as tf

from sok_compat.distributed_embeddings.assignment import checked_strategy
from sok_compat.distributed_embeddings.global_weights import read_tables, write_tables
from sok_compat.distributed_embeddings.placed_tables import PlacedTables, TableLayer
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding
from sok_compat.distributed_embeddings.samples import (
    known_to_table,
    samples_of,
    without_strangers,
)
from sok_compat.distributed_embeddings.strategy import (
    BY_COLUMNS,
    BY_ROWS,
    REPLICATED,
    DistEmbeddingStrategy,
)
from sok_compat.lookup.group import lookup_group
from sok_compat.runtime.horovod_ranks import start_horovod
from sok_compat.runtime.tf_versions import keras
from sok_compat.tables import connected_ranks

_ON_VARIABLES = ("embeddings_regularizer", "embeddings_constraint", "activity_regularizer")


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
        **kwargs,
    ):
        """Plans; on all ranks alike, without asking the others.

        Args:
          embeddings: layers, of which only the configurations are used.
          strategy: see DistEmbeddingStrategy, as all that follow but dp_input; with one rank
            nothing is cut or copied.
          dp_input: False, of one rank: inputs come in the order of strategy.input_ids_list.
          **kwargs: for the Keras layer.

        Raises:
          ValueError: an unknown strategy; a rank would have no table.
          NotImplementedError: with several ranks, dp_input=False, or a layer to be cut that is no
            Embedding, or has a regularizer or a constraint.
          ImportError: Horovod is installed and fails.
          RuntimeError: another rank does not come here.
        """
        checked_strategy(strategy)
        super().__init__(**{**kwargs, "autocast": False})
        start_horovod(type(self).__name__)
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
        )
        self._check_ranks()
        self._layers_given = _Given(embeddings)
        self.dp_layers = [
            self._layers_given.rebuilt(table, self.strategy.global_configs[table])
            for table in self.strategy.table_groups[REPLICATED]
        ]
        self._on_variables = self._layers_given.on_variables(self.strategy)
        self._check_can_be_cut()

    def _check_ranks(self):
        if self._ranks.size > 1 and not self.dp_input:
            raise NotImplementedError(
                f"dp_input=False needs one rank, there are {self._ranks.size}: give each rank its "
                "part of the batch of all inputs, with dp_input=True"
            )
        if self.strategy.table_groups[BY_COLUMNS] and not all(self.strategy.table_ids):
            raise ValueError(
                "Not enough table after slicing to run on all worker."
                "Try decrease column_slice_threshold or decrease worker count"
            )

    def _check_can_be_cut(self):
        if self._on_variables and self._ranks.size > 1:
            raise NotImplementedError(
                f"the layers of the tables {sorted(self._on_variables)} can be on one rank, or "
                "whole on every rank (data_parallel_threshold), only: they are no Embedding, or "
                f"have one of {_ON_VARIABLES}"
            )

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
        for layer in self.dp_layers:
            layer.build(None) if isinstance(layer, Embedding) else None
        self.built = True

    def _local_layer(self, number, config, table):
        if table is not None:
            return TableLayer(config, table)
        fused = self.strategy.plans[0].fused[number]
        first = self.strategy.table_groups[BY_COLUMNS][fused.slices[0].table]
        return self._layers_given.rebuilt(first, config)

    def _check_batch_sizes(self, input_shape):
        sizes = [shape[0] for shape in map(tf.TensorShape, _as_list(input_shape)) if shape.rank]
        if len({size for size in sizes if size is not None}) > 1:
            raise ValueError(f"All input need to have same batchsize. got {sizes}.")

    def call(self, inputs):
        """The rows of each input.

        Args:
          inputs: list, for each input its ids: a tensor, or a tf.RaggedTensor, or with one rank a
            tf.SparseTensor; of this rank's part of the batch.

        Returns:
          A list of tensors, one for each input, as its layer would give; with several ranks, ids
          [batch, 1] of a table that is cut by columns and has no combiner give [batch, width].

        Raises:
          ValueError: another number of inputs, or what the input's layer would raise.
        """
        inputs = self._in_order(_as_list(inputs))
        outputs = [None] * len(inputs)
        groups = zip(self.strategy.input_groups[REPLICATED], self.strategy.map_groups[REPLICATED])
        for i, table in groups:
            outputs[i] = self.dp_layers[table](inputs[i])
        for i, output in self._of_tables(inputs).items():
            outputs[i] = output
        compute_dtype = self.compute_dtype or "float32"
        return [tf.cast(output, compute_dtype) for output in outputs]

    def _in_order(self, inputs):
        expected = len(self.strategy.input_table_map)
        if len(inputs) != expected:
            raise ValueError(
                f"Expect {list(range(expected))} inputs, got {len(inputs)}.: DistributedEmbedding "
                "takes a list with one for each input of its tables"
            )
        if any(isinstance(one, tf.SparseTensor) for one in inputs) and self._ranks.size > 1:
            raise ValueError(
                "Sparse tensor data-parallel input is not supported: give it a tf.RaggedTensor"
            )
        inputs = [_as_integers(one) for one in inputs]
        if not self.dp_input:
            (order,) = self.strategy.input_ids_list
            inputs = [inputs[order.index(i)] for i in range(expected)]
        return inputs

    @tf.autograph.experimental.do_not_convert
    def _of_tables(self, inputs):
        """{input: output} of all tables that are cut: one group of lookups."""
        asked = {}  # input: (function of the rows of its lookups, its lookups)
        outputs = {}
        for number, i in enumerate(self.strategy.input_groups[BY_COLUMNS]):
            parts = self._parts_of(number)
            if parts[0][0] is None:  # a layer on a variable, with one rank
                ((_, offset, layer),) = parts
                outputs[i] = layer(tf.cast(inputs[i], tf.int64) + offset if offset else inputs[i])
            else:
                asked[i] = self._asked_by_columns(i, inputs[i], parts)
        groups = zip(self.strategy.input_groups[BY_ROWS], self.strategy.map_groups[BY_ROWS])
        for i, table in groups:
            asked[i] = self._asked_by_rows(i, inputs[i], self._tables.by_rows[table])
        rows = iter(_looked_up([lookup for _, lookups in asked.values() for lookup in lookups]))
        for i, (finish, lookups) in asked.items():
            outputs[i] = finish([next(rows) for _ in lookups])
        return outputs

    def _parts_of(self, number):
        """[(table, row offset, layer)] of the slices of an input of the group, in the order of
        their columns; the layer where it is on a variable, and has no table."""
        parts = []
        for rank, inputs in enumerate(self.strategy.input_ids_list):
            for place, of_input in enumerate(inputs):
                if of_input == number:
                    joined = self.strategy.local_maps[rank][place]
                    table = self._tables.by_columns[rank][joined]
                    layer = self.local_embedding_layers[joined] if table is None else None
                    offset = self.strategy.local_input_offsets[rank][place]
                    parts.append((table, offset, layer))
        return parts

    def _asked_by_columns(self, i, ids, parts):
        config = self._config_of_input(i)
        samples = samples_of(ids, config.get("combiner"), self.name)
        if any(table.capacity != config["input_dim"] for table, *_ in parts):
            samples = known_to_table(samples, config["input_dim"], self.name)
        shape = getattr(ids, "shape", None)
        is_flat = self._ranks.size > 1 and config.get("combiner") is None and shape[1:] == [1]

        def finish(rows):
            rows = rows[0] if len(rows) == 1 else tf.concat(rows, 1)
            return rows if is_flat else samples.shaped(rows)

        return finish, [samples.lookup(table, offset) for table, offset, _ in parts]

    def _asked_by_rows(self, i, ids, table):
        config = self._config_of_input(i)
        samples = samples_of(ids, config.get("combiner"), self.name)
        samples = without_strangers(samples, config["input_dim"])
        return lambda rows: samples.shaped(rows[0]), [samples.lookup(table)]

    def _config_of_input(self, i):
        return self.strategy.global_configs[self.strategy.input_table_map[i]]

    def get_weights(self, all_ranks=False):
        """The whole tables, in the order of the layers given; all ranks have to call it.

        Args:
          all_ranks: False: the ranks other than 0 get an empty list.

        Returns:
          A list of float32 arrays [rows, columns].

        Raises:
          ValueError: the layer is not built.
          NotImplementedError: in graph mode.
        """
        self._check_is_built("get_weights")
        return read_tables(self, self._ranks, all_ranks)

    def set_weights(self, weights, chunk=134217728, use_lock=False):
        """Sets the rows of all tables; each rank takes its part. State of optimizers stays.

        Args:
          weights: for each table, in the order of the layers given, an array [rows, columns], or
            the path of a .npy file, of which only parts are read at a time.
          chunk: most floats that are copied at a time.
          use_lock: whether ranks come one after the other; all have to say the same.

        Raises:
          ValueError: the layer is not built; another number of tables, or another shape.
          NotImplementedError: in graph mode.
        """
        if not self.built:
            raise ValueError(
                f"You called `set_weights(weights)` on layer {self.name!r} with a weight list of "
                f"length {len(weights)}, but the layer was expecting 0 weights. Call it once first."
            )
        self._check_is_built("set_weights")
        write_tables(self, self._ranks, weights, chunk, use_lock)

    def _check_is_built(self, method):
        if not self.built:
            raise ValueError(f"{method} of {self.name!r}: the layer has no weights before a call")
        if not tf.executing_eagerly():
            raise NotImplementedError(f"{method} of {self.name!r} needs eager mode")


class _Given:
    """The layers of the script; Keras does not take them for sub-layers."""

    def __init__(self, embeddings):
        self._embeddings = list(embeddings)

    def rebuilt(self, table, config):
        """A new layer like that of a table, of another configuration."""
        kind = type(self._embeddings[table])
        config = {key: value for key, value in config.items() if key != "cpu_offload"}
        return (Embedding if kind is keras.layers.Embedding else kind).from_config(config)

    def on_variables(self, strategy):
        """The tables, of those to be cut, whose layers have to be called as they are."""
        cut = {*strategy.table_groups[BY_COLUMNS], *strategy.table_groups[BY_ROWS]}
        return {
            table
            for table in cut
            if type(self._embeddings[table]) not in (Embedding, keras.layers.Embedding)
            or any(strategy.global_configs[table].get(key) for key in _ON_VARIABLES)
        }

    def initializers(self):
        """Of each table."""
        return [getattr(one, "embeddings_initializer", None) for one in self._embeddings]


def _looked_up(lookups):
    """The rows of each. Frozen tables are a group of their own: on a rank that trains none of a
    group's tables, nothing would ask for gradients, and the others would wait for it."""
    rows = {}
    for is_trained in (True, False):
        group = [one for one in lookups if one.table.trainable == is_trained]
        rows.update(zip(group, lookup_group(group, insert=True)))
    return [rows[one] for one in lookups]


def _as_list(values):
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _as_integers(ids):
    if not isinstance(ids, (tf.RaggedTensor, tf.SparseTensor)):
        ids = tf.convert_to_tensor(ids)
    return ids if ids.dtype in (tf.int32, tf.int64) else tf.cast(ids, tf.int64)
