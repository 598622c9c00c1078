# SPDX-License-Identifier: Apache-2.0
"""The tables of a DistributedEmbedding in checkpoints: as those of the layers given, whichever
ranks have which parts of them."""

from sok_compat.checkpoint.saved_parts import PartsSaveable, WholeVariable
from sok_compat.distributed_embeddings.strategy import REPLICATED
from sok_compat.runtime.tf_versions import Trackable


class SavedTables(Trackable):
    """What tf.train.Checkpoint and Keras save of a layer, on all ranks together. It has of each
    given table `tables/<number>/rows` [rows, columns], and `tables/<number>/slots/...` of what
    optimizers keep for it."""

    def __init__(self, layer, tables, ranks):
        """Makes no ops.

        Args:
          layer: the DistributedEmbedding, with its layers; it is not kept.
          tables: its PlacedTables.
          ranks: the Ranks.
        """
        self._strategy, self._placed, self._ranks = layer.strategy, tables, ranks
        self._dp_layers, self._local_layers = [*layer.dp_layers], [*layer.local_embedding_layers]

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
