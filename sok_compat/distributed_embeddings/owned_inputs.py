# SPDX-License-Identifier: Apache-2.0
"""Looks up inputs that each rank is given for its own tables, with the ids of all ranks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import tensorflow as tf

from sok_compat.distributed_embeddings.planning.placed_tables import PlacedLayer
from sok_compat.distributed_embeddings.planning.samples import (
    LookupRequest,
    lookups_of,
    samples_of_inputs,
)
from sok_compat.distributed_embeddings.python.ops.embedding_lookup_ops import Ids
from sok_compat.lookup.batch_at_owner import (
    begin_batch_at_owner,
    lookup_batch_at_owner,
    number_of_each_rank,
)
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.ranks.allgather_strings import allgather_strings
from sok_compat.ranks.identity import Ranks
from sok_compat.tables import Table


def check_batches_of_ranks(shapes: Sequence[tf.TensorShape], ranks: Ranks) -> None:
    """Checks that the inputs of all ranks have one batch size, divisible by the number of ranks.

    All ranks call it, and all of them fail if it fails. Unknown sizes are not checked.

    Raises:
      ValueError: the sizes differ or are not divisible.
    """
    mine = [shape.as_list()[0] for shape in shapes if shape.rank]
    gathered = allgather_strings("DistributedEmbedding.build", json.dumps(mine))
    sizes = [json.loads(text) for text in gathered]
    known = sorted({size for of_rank in sizes for size in of_rank if size is not None})
    if len(known) > 1:
        raise ValueError(f"All input need to have same batchsize. got {sizes}, by rank.")
    if known and known[0] % ranks.size:
        raise ValueError(f"Global batchsize {known[0]} not divisible workers count {ranks.size}.")


class OwnedInputs:
    """Looks up the ids of the whole batch on the ranks that hold the tables.

    Each rank gets the rows of its part of the batch.
    """

    def __init__(self, placed: PlacedLayer) -> None:
        """Looks nothing up yet, in a layer with tables cut by columns only."""
        self._name, self._strategy, self._tables, self._ranks, *_ = placed

    @tf.autograph.experimental.do_not_convert
    def outputs(self, inputs: Sequence[Ids]) -> dict[int, tf.Tensor]:
        """Returns {input: rows float32 [batch of this rank, width]} for all inputs of all ranks.

        Args:
          inputs: ids of this rank's inputs, in the order of strategy.input_ids_list.

        Raises:
          ValueError: a table without a combiner gets other than one id for each sample.
        """
        size = self._size_of_part(inputs)
        requests = self._requested(inputs)
        mine, _ = lookups_of(requests, begin=lambda: self._begin([one.lookup for one in requests]))
        requested = self._of_all(mine)
        found = self._looked_up([lookup for _, lookup in requested], size)
        columns: dict[int, list[tf.Tensor]] = {}
        for i, lookup in requested:
            columns.setdefault(i, []).append(found[lookup])
        known = tf.get_static_value(size)
        outputs: dict[int, tf.Tensor] = {}
        for i, parts in columns.items():
            outputs[i] = parts[0] if len(parts) == 1 else tf.concat(parts, 1)
            outputs[i].set_shape([None if known is None else int(known), None])
        return outputs

    def _of_all(self, mine: Iterable[Lookup]) -> list[tuple[int, Lookup]]:
        """[(input, `Lookup`)] of all ranks; `mine` are those of this rank."""
        own = iter(mine)
        return [
            (i, next(own) if rank == self._ranks.rank else self._nothing_of(rank, place))
            for rank in range(self._ranks.size)
            for place, i in enumerate(self._inputs_of(rank))
        ]

    def _begin(self, mine: list[Lookup]) -> tf.Tensor:
        first = next(iter(_groups([lookup for _, lookup in self._of_all(mine)])))
        return begin_batch_at_owner(first, insert=True)

    def _inputs_of(self, rank: int) -> list[int]:
        return self._strategy.input_ids_list[rank]

    def _requested(self, inputs: Sequence[Ids]) -> list[LookupRequest]:
        """The LookupRequest of each of this rank's inputs."""
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
        rows = [
            self._strategy.rows_of_input(i, self._name, offset)
            for i, offset in zip(numbers, self._strategy.local_input_offsets[rank])
        ]
        return [LookupRequest(*each) for each in zip(samples, tables, rows)]

    def _nothing_of(self, rank: int, place: int) -> Lookup:
        """A `Lookup` without keys, by which this rank gets its rows of another rank's input."""
        return Lookup(self._table(rank, place), tf.zeros([0], tf.int64))

    def _table(self, rank: int, place: int) -> Table:
        return self._tables.by_columns[rank][self._strategy.local_maps[rank][place]]

    def _size_of_part(self, inputs: Sequence[Ids]) -> tf.Tensor:
        """Samples of each rank; a rank without inputs learns the number from the others."""
        sizes = [_num_samples(ids) for ids in inputs]
        if all(self._strategy.input_ids_list):
            return sizes[0] // self._ranks.size
        mine = sizes[0] if sizes else tf.constant(0, tf.int64)
        numbers = number_of_each_rank(mine, self._ranks, f"{self._name} batch")
        return tf.reduce_max(numbers) // self._ranks.size

    def _looked_up(self, lookups: list[Lookup], size: tf.Tensor) -> dict[Lookup, tf.Tensor]:
        """{lookup: rows}"""
        rows: dict[Lookup, tf.Tensor] = {}
        for group in _groups(lookups):
            rows.update(zip(group, lookup_batch_at_owner(group, size, insert=True)))
        return rows


def _groups(lookups: Iterable[Lookup]) -> Iterable[list[Lookup]]:
    """The lookups in groups: trained and frozen tables apart, and each device apart."""
    groups: dict[tuple, list[Lookup]] = {}
    for lookup in lookups:
        groups.setdefault((lookup.table.trainable, lookup.table.device), []).append(lookup)
    return groups.values()


def _num_samples(ids: Ids) -> tf.Tensor:
    if isinstance(ids, tf.RaggedTensor):
        return tf.cast(ids.nrows(), tf.int64)
    if isinstance(ids, tf.SparseTensor):
        return ids.dense_shape[0]
    size = tf.compat.dimension_value(ids.shape[0])
    return tf.shape(ids, tf.int64)[0] if size is None else tf.constant(size, tf.int64)
