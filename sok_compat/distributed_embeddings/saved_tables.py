# SPDX-License-Identifier: Apache-2.0
"""The tables of a DistributedEmbedding in checkpoints: as those of the layers given, whichever
ranks have which parts of them."""

import tensorflow as tf

from sok_compat.checkpoint.saved_parts import PartsSaveable
from sok_compat.checkpoint.whole_variable import NotedSlots, WholeVariable
from sok_compat.distributed_embeddings.placed_tables import TableLayer
from sok_compat.distributed_embeddings.strategy import REPLICATED
from sok_compat.runtime.tf_versions import Trackable


class SavedTables(Trackable):
    """What tf.train.Checkpoint, Keras and tf.train.Saver save of a layer, on all ranks together. It
    has of each given table `tables/<number>/rows` [rows, columns], and `tables/<number>/slots/...`
    of what optimizers keep for it."""

    def __init__(self, layer, tables, ranks):
        """Makes no ops.

        Args:
          layer: the DistributedEmbedding, with its layers; it is not kept.
          tables: its PlacedTables.
          ranks: the Ranks.
        """
        self._strategy, self._placed, self._ranks = layer.strategy, tables, ranks
        self._dp_layers, self._local_layers = [*layer.dp_layers], [*layer.local_embedding_layers]
        self._name = layer.name
        self._noted = set()  # layers, by their numbers, whose variables have been told

    def note_slots_of_variables(self):
        """Lets the variables of layers that are called as they are, once these are built, note
        their slots; and in a graph lets all be found by who saves them by name."""
        in_graph = not tf.compat.v1.executing_eagerly_outside_functions()
        for number, layer in enumerate((*self._dp_layers, *self._local_layers)):
            if number in self._noted or not layer.weights:
                continue
            self._noted.add(number)
            if not isinstance(layer, TableLayer):
                layer.weights[0].noted_slots = NotedSlots()
            if in_graph:
                layer.weights[0].saved_with = self
        tables = [table for of_rank in self._placed.by_columns for table in of_rank]
        for table in (*tables, *self._placed.by_rows) if in_graph else ():
            if table is not None:
                table.saved_with = self

    def saveable(self):
        """The PartsSaveable for a tf.train.Saver."""
        return PartsSaveable(self._all(), f"{self._name}/tables")

    def _gather_saveables_for_checkpoint(self):
        return {"tables": lambda name: PartsSaveable(self._all(), name)}

    def _all(self):
        """Of all ranks, in the same order on all."""
        strategy = self._strategy
        found = [
            self._whole(self._dp_layers[number], self._placed.part_of_copy(table))
            for number, table in enumerate(strategy.table_groups[REPLICATED])
        ]
        for rank, plan in enumerate(strategy.plans):
            for number, fused in enumerate(plan.fused):
                table = self._placed.by_columns[rank][number]
                if table is None:  # there is one rank
                    layer = self._local_layers[number]
                    table = self._whole(layer, self._placed.parts_of(fused))
                found.append(table)
        return [*found, *self._placed.by_rows]

    def _whole(self, layer, parts):
        if not layer.weights:
            raise ValueError(f"{layer.name!r} has no weights before a call: nothing is to be saved")
        return WholeVariable(layer.weights[0], parts, self._ranks)
