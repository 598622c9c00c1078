# SPDX-License-Identifier: Apache-2.0
"""Inputs of which a rank is given the ids of all ranks, for the tables that it has."""

import json

import tensorflow as tf

from sok_compat.distributed_embeddings.samples import Asked, lookups_of, samples_of_inputs
from sok_compat.lookup.batch_at_owner import lookup_batch_at_owner, number_of_each_rank
from sok_compat.lookup.group import Lookup
from sok_compat.runtime.shared_texts import share_text


def check_batches_of_ranks(shapes, ranks):
    """Fails on all ranks unless their inputs, as far as the sizes are known, are one batch that can
    be divided among them.

    Args:
      shapes: of this rank's inputs.
      ranks: the Ranks, which all come here.

    Raises:
      ValueError: they are not.
    """
    mine = [shape[0] for shape in shapes if shape.rank]
    said = share_text("DistributedEmbedding.build", json.dumps(mine))
    sizes = [json.loads(text) for text in said]
    known = sorted({size for of_rank in sizes for size in of_rank if size is not None})
    if len(known) > 1:
        raise ValueError(f"All input need to have same batchsize. got {sizes}, by rank.")
    if known and known[0] % ranks.size:
        raise ValueError(f"Global batchsize {known[0]} not divisible workers count {ranks.size}.")


class OwnedInputs:
    """What looks up inputs that come to the ranks of their tables, with the ids of the batch of all
    ranks; each rank gets the rows of its part."""

    def __init__(self, strategy, tables, ranks, name, layers=()):
        """Looks nothing up.

        Args:
          strategy: the DistEmbeddingStrategy, of tables cut by columns alone.
          tables: the PlacedTables.
          ranks: the Ranks.
          name: of the layer, the same on all ranks.
          layers: none is called.
        """
        del layers
        self._strategy, self._tables, self._ranks, self._name = strategy, tables, ranks, name

    @tf.autograph.experimental.do_not_convert
    def outputs(self, inputs):
        """{input: rows float32 [batch of this rank, width]} of all inputs of all ranks.

        Args:
          inputs: the ids of this rank's, in the order of strategy.input_ids_list.

        Raises:
          ValueError: ids of a table without a combiner that are not one for each sample.
        """
        mine = iter(self._lookups(inputs))
        asked = [
            (i, next(mine) if rank == self._ranks.rank else self._nothing_of(rank, place))
            for rank in range(self._ranks.size)
            for place, i in enumerate(self._inputs_of(rank))
        ]
        size = self._size_of_part(inputs)
        found = self._looked_up([lookup for _, lookup in asked], size)
        columns = {}
        for i, lookup in asked:
            columns.setdefault(i, []).append(found[lookup])
        known = tf.get_static_value(size)
        outputs = {}
        for i, parts in columns.items():
            outputs[i] = parts[0] if len(parts) == 1 else tf.concat(parts, 1)
            outputs[i].set_shape([None if known is None else int(known), None])
        return outputs

    def _inputs_of(self, rank):
        return self._strategy.input_ids_list[rank]

    def _lookups(self, inputs):
        """Of this rank's inputs."""
        rank, numbers = self._ranks.rank, self._inputs_of(self._ranks.rank)
        configs = [self._strategy.config_of_input(i) for i in numbers]
        combiners = [config.get("combiner") for config in configs]
        for i, combiner, ids in zip(numbers, combiners, inputs):
            if combiner is None and ids.shape[1:].as_list() not in ([], [1]):
                raise ValueError(
                    f"{self._name}: input {i} is of a table without a combiner, and goes to the "
                    "rank of its table: its ids must be [batch] or [batch, 1], got the shape "
                    f"{ids.shape}"
                )
        samples = samples_of_inputs(inputs, combiners, self._name)
        tables = [self._table(rank, place) for place in range(len(numbers))]
        offsets = self._strategy.local_input_offsets[rank]
        nums_rows = [config["input_dim"] for config in configs]
        asked = [Asked(*each) for each in zip(samples, tables, nums_rows, offsets)]
        return lookups_of(asked, self._name)

    def _nothing_of(self, rank, place):
        """The `Lookup` by which this rank has its rows of another rank's input."""
        return Lookup(self._table(rank, place), tf.zeros([0], tf.int64))

    def _table(self, rank, place):
        return self._tables.by_columns[rank][self._strategy.local_maps[rank][place]]

    def _size_of_part(self, inputs):
        """Samples of each rank; a rank without inputs hears of them from others."""
        sizes = [_num_samples(ids) for ids in inputs]
        if all(self._strategy.input_ids_list):
            return sizes[0] // self._ranks.size
        mine = sizes[0] if sizes else tf.constant(0, tf.int64)
        said = number_of_each_rank(mine, self._ranks, f"{self._name} batch")
        return tf.reduce_max(said) // self._ranks.size

    def _looked_up(self, lookups, size):
        """{lookup: rows}. Frozen tables are a group of their own, and those of each device."""
        groups = {}
        for lookup in lookups:
            groups.setdefault((lookup.table.trainable, lookup.table.device), []).append(lookup)
        rows = {}
        for group in groups.values():
            rows.update(zip(group, lookup_batch_at_owner(group, size, insert=True)))
        return rows


def _num_samples(ids):
    if isinstance(ids, tf.RaggedTensor):
        return tf.cast(ids.nrows(), tf.int64)
    if isinstance(ids, tf.SparseTensor):
        return ids.dense_shape[0]
    if ids.shape[0] is None:
        return tf.shape(ids, tf.int64)[0]
    return tf.constant(ids.shape[0], tf.int64)
