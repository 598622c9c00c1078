# SPDX-License-Identifier: Apache-2.0
"""The tables of a DistributedEmbedding in checkpoints, stored as the tables of the layers given.

A checkpoint does not depend on the plan, that is, on the ranks' parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

import tensorflow as tf

from sok_compat.checkpoint.parts.saved_parts import PartsSaveable
from sok_compat.checkpoint.parts.whole_variable import NotedSlots, WholeVariable
from sok_compat.distributed_embeddings.planning.placed_tables import PlacedLayer, TableLayer
from sok_compat.distributed_embeddings.planning.strategy import REPLICATED
from sok_compat.runtime.tf_versions import Trackable
from sok_compat.tables.stored.storage import Storage

if TYPE_CHECKING:
    from sok_compat.runtime.tf_versions import keras


class SavedTables(Trackable):
    """The part of a layer that tf.train.Checkpoint, Keras and tf.train.Saver save, on all ranks.

    For each given table it has `tables/<number>/rows` [rows, columns], and
    `tables/<number>/slots/...` for the optimizers' slots.
    """

    def __init__(self, placed: PlacedLayer) -> None:
        """Makes no ops."""
        self._of_layer = placed
        self._noted: set[int] = set()  # numbers of the layers whose variables are marked

    def note_slots_of_variables(self) -> None:
        """Makes the variables of built layers note their slots.

        In a graph it also marks all tables, so that savers by name find this object.
        """
        in_graph = not tf.compat.v1.executing_eagerly_outside_functions()
        for number, layer in enumerate((*self._of_layer.copies, *self._of_layer.layers)):
            if number in self._noted or not layer.weights:
                continue
            self._noted.add(number)
            variable = layer.weights[0]
            storage = variable.storage if isinstance(layer, TableLayer) else NotedSlots()
            if not isinstance(layer, TableLayer):
                variable.noted_slots = storage
            if in_graph:
                storage.owner = self
        placed = self._of_layer.tables
        tables: list[Any] = [table for of_rank in placed.by_columns for table in of_rank]
        for table in (*tables, *placed.by_rows) if in_graph else ():
            if table is not None:
                table.storage.owner = self

    def saveable(self) -> PartsSaveable:
        """Returns the PartsSaveable for a tf.train.Saver."""
        return PartsSaveable(self._all(), f"{self._of_layer.name}/tables")

    def _gather_saveables_for_checkpoint(self) -> dict[str, Callable[[str], PartsSaveable]]:
        return {"tables": lambda name: PartsSaveable(self._all(), name)}

    def _all(self) -> list[Any]:
        """The tables of all ranks, in the same order on every rank."""
        _, strategy, tables, _, layers, copies = self._of_layer
        found: list[Any] = [
            self._whole(copies[number], tables.part_of_copy(table))
            for number, table in enumerate(strategy.table_groups[REPLICATED])
        ]
        for rank, plan in enumerate(strategy.plans):
            for number, fused in enumerate(plan.fused):
                table = tables.by_columns[rank][number]
                if table is None:  # there is one rank
                    table = self._whole(layers[number], tables.parts_of(fused))
                found.append(table)
        return [*found, *tables.by_rows]

    def _whole(self, layer: keras.layers.Layer, parts: tuple) -> WholeVariable:
        if not layer.weights:
            raise ValueError(
                f"{layer.name!r} has no weights before a call: there is nothing to save"
            )
        return WholeVariable(layer.weights[0], Storage(parts=parts), self._of_layer.ranks)
