# SPDX-License-Identifier: Apache-2.0
"""The tables of a DistributedEmbedding in checkpoints, stored as the tables of the layers given.

A checkpoint does not depend on the plan, that is, on the ranks' parts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Callable

import tensorflow as tf

from sok_compat.checkpoint.parts.saved_parts import PartsSaveable
from sok_compat.checkpoint.parts.whole_variable import NotedSlots, WholeVariable
from sok_compat.distributed_embeddings.planning.placed_tables import PlacedLayer
from sok_compat.distributed_embeddings.planning.strategy import REPLICATED
from sok_compat.runtime.tf_versions import Trackable, keras, variable_of
from sok_compat.tables.stored.description import describe
from sok_compat.tables.stored.saved_part import SavedPart
from sok_compat.tables.stored.storage import Storage
from sok_compat.tables.table import Table


class SavedTables(Trackable):
    """The part of a layer that tf.train.Checkpoint, Keras and tf.train.Saver save, on all ranks.

    For each given table it has `tables/<number>/rows` [rows, columns], and
    `tables/<number>/slots/...` for the optimizers' slots.
    """

    def __init__(self, placed: PlacedLayer) -> None:
        """Makes no ops."""
        self._of_layer = placed
        self._noted: set[int] = set()  # numbers of the places whose variables are marked

    def note_slots_of_variables(self) -> None:
        """Makes the variables of built layers note their slots.

        In a graph it also marks all tables, so that savers by name find this object, and those of
        the exported graph the tables.
        """
        in_graph = not tf.compat.v1.executing_eagerly_outside_functions()
        for number, (place, parts) in enumerate(self._places()):
            weights = [place] if isinstance(place, Table) else place.weights
            if number in self._noted or not weights:
                continue
            variable = weights[0] if isinstance(place, Table) else variable_of(weights[0])
            self._noted.add(number)
            storage = place.storage if isinstance(place, Table) else NotedSlots()
            if not isinstance(place, Table):
                variable.noted_slots = storage
            if in_graph:
                storage.owner = self
                ranks = dataclasses.astuple(self._of_layer.ranks)
                storage.described = {"owner": [self._name(), number], "ranks": ranks}
                described = {**storage.described, "parts": [*map(dataclasses.astuple, parts)]}
                describe(getattr(variable, "table_handle", variable.handle), described)

    def saveable(self) -> PartsSaveable:
        """Returns the PartsSaveable for a tf.train.Saver."""
        return PartsSaveable(self._all(), self._name())

    def _gather_saveables_for_checkpoint(self) -> dict[str, Callable[[str], PartsSaveable]]:
        return {"tables": lambda name: PartsSaveable(self._all(), name)}

    def _name(self):
        return f"{self._of_layer.name}/tables"

    def _all(self) -> list[Any]:
        return [
            place if isinstance(place, Table) else self._whole(place, parts)
            for place, parts in self._places()
        ]

    def _places(self) -> Iterator[tuple[Any, Sequence[SavedPart]]]:
        """Yields (Table or layer that has a variable, its parts) of all ranks, in the same order on
        every rank."""
        _, strategy, tables, _, layers, copies = self._of_layer
        for number, table in enumerate(strategy.table_groups[REPLICATED]):
            yield copies[number], tables.part_of_copy(table)
        for rank, plan in enumerate(strategy.plans):
            for number, fused in enumerate(plan.fused):
                joined = tables.by_columns[rank][number]
                if joined is None:  # there is one rank
                    yield layers[number], tables.parts_of(fused)
                else:
                    yield joined, joined.storage.parts
        for spread in tables.by_rows:
            yield spread, spread.storage.parts

    def _whole(self, layer: keras.layers.Layer, parts: Sequence[SavedPart]) -> WholeVariable:
        if not layer.weights:
            raise ValueError(
                f"{layer.name!r} has no weights before a call: there is nothing to save"
            )
        return WholeVariable(
            variable_of(layer.weights[0]), Storage(parts=parts), self._of_layer.ranks
        )
