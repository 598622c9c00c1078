# SPDX-License-Identifier: Apache-2.0
"""Looks up inputs of which each rank is given its part of the batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable

import tensorflow as tf

from sok_compat.distributed_embeddings.planning.placed_tables import PlacedLayer
from sok_compat.distributed_embeddings.planning.samples import (
    LookupRequest,
    Samples,
    lookups_of,
    samples_of_inputs,
    without_strangers,
)
from sok_compat.distributed_embeddings.planning.strategy import BY_COLUMNS, BY_ROWS, REPLICATED
from sok_compat.distributed_embeddings.python.ops.embedding_lookup_ops import Ids
from sok_compat.lookup.group import begin_group, lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.tables import Table


class InputParts:
    """Looks up the inputs by one group of lookups, however many tables there are."""

    def __init__(self, placed: PlacedLayer) -> None:
        """Looks nothing up yet."""
        self._name, self._strategy, self._tables, self._ranks, self._layers, self._copies = placed

    def outputs(self, inputs: Sequence[Ids]) -> dict[int, tf.Tensor]:
        """Returns {input: output} of all inputs."""
        outputs, to_call = self._looked_up(inputs)
        for i, (layer, ids) in to_call.items():
            outputs[i] = self._flattened(i, ids, layer(ids))
        return outputs

    @tf.autograph.experimental.do_not_convert
    def _looked_up(self, inputs: Sequence[Ids]) -> tuple[dict[int, tf.Tensor], dict[int, tuple]]:
        """({input: output} for inputs of tables, {input: (layer to call, ids)} for the others)"""
        requested = {}  # input: (function of the rows of its lookups, its LookupRequests)
        parts = {
            i: self._parts_of(number)
            for number, i in enumerate(self._strategy.input_groups[BY_COLUMNS])
        }
        of_tables = [i for i in parts if parts[i][0][0] is not None]
        samples = self._samples(inputs, [*of_tables, *self._strategy.input_groups[BY_ROWS]])
        called = self._called({i: parts[i] for i in parts.keys() - {*of_tables}})
        for i in of_tables:
            requested[i] = self._requested_by_columns(i, inputs[i], samples[i], parts[i])
        groups = zip(self._strategy.input_groups[BY_ROWS], self._strategy.map_groups[BY_ROWS])
        for i, table in groups:
            requested[i] = self._requested_by_rows(i, samples[i], self._tables.by_rows[table])
        requests = [one for _, of_input in requested.values() for one in of_input]
        checked = [i for i, (_, rows_of_input) in called.items() if rows_of_input is not None]
        lookups, ids = lookups_of(
            requests,
            [(_flat(inputs[i]), called[i][1]) for i in checked],
            self._begin_of(requests),
        )
        rows = iter(_looked_up(lookups))
        outputs = {i: finish([next(rows) for _ in x]) for i, (finish, x) in requested.items()}
        given = {**dict(enumerate(inputs)), **dict(zip(checked, _in_forms(inputs, checked, ids)))}
        return outputs, {i: (layer, given[i]) for i, (layer, _) in called.items()}

    def _called(self, parts: dict[int, list[tuple]]) -> dict[int, tuple]:
        """{input: (its layer, its RowsOfInput)} of tables on variables.

        These are the tables that are whole on every rank and, with one rank, those of `parts`.
        """
        groups = zip(self._strategy.input_groups[REPLICATED], self._strategy.map_groups[REPLICATED])
        called = {
            i: (self._copies[table], self._strategy.rows_of_input(i, self._name))
            for i, table in groups
        }
        for i, ((_, offset, layer),) in parts.items():
            num_rows = self._strategy.config_of_input(i)["input_dim"]
            is_joined = layer.get_config()["input_dim"] != num_rows
            called[i] = layer, self._strategy.rows_of_input(i, self._name, offset, is_joined)
        return called

    def _begin_of(self, requests: list[LookupRequest]) -> Callable[[], tf.Tensor] | None:
        """The argument `begin` of `lookups_of`."""
        groups = [group for group in _groups([one.lookup for one in requests]) if group]
        if self._ranks.size == 1 or not groups:
            return None
        return lambda: begin_group(groups[0], insert=True)

    def _flattened(self, i: int, ids: Any, output: tf.Tensor) -> tf.Tensor:
        """The output [batch, width] for ids [batch, 1], as of tables cut by columns.

        Applies to tables that are not cut because of their layers; other outputs stay.
        """
        table = self._strategy.input_table_map[i]
        shape: Any = getattr(ids, "shape", None)
        is_moved = self._ranks.size > 1 and table in self._strategy.uncut_tables
        has_one_each = shape.rank == 2 and shape.as_list()[1] == 1
        if is_moved and has_one_each and output.shape.rank == 3:
            return tf.reshape(output, [-1, output.shape.as_list()[2]])
        return output

    def _samples(self, inputs: Sequence[Ids], numbers: list[int]) -> dict[int, Samples]:
        """{input: its Samples} for the inputs of these numbers."""
        combiners = [self._strategy.config_of_input(i).get("combiner") for i in numbers]
        found = samples_of_inputs([inputs[i] for i in numbers], combiners, self._name)
        return dict(zip(numbers, found))

    def _parts_of(self, number: int) -> list[tuple[Table | None, int, Any]]:
        """[(table, row offset, layer)] of an input's slices, in the order of columns, by its number
        within the group of tables cut by columns.

        Either the table or the layer is None: the latter is on a variable.
        """
        parts = []
        for rank, inputs in enumerate(self._strategy.input_ids_list):
            for place, of_input in enumerate(inputs):
                if of_input == number:
                    joined = self._strategy.local_maps[rank][place]
                    table = self._tables.by_columns[rank][joined]
                    layer = self._layers[joined] if table is None else None
                    offset = self._strategy.local_input_offsets[rank][place]
                    parts.append((table, offset, layer))
        return parts

    def _requested_by_columns(
        self, i: int, ids: Ids, samples: Samples, parts: list[tuple]
    ) -> tuple[Callable, list[LookupRequest]]:
        config = self._strategy.config_of_input(i)
        shape: Any = getattr(ids, "shape", None)
        is_flat = self._ranks.size > 1 and config.get("combiner") is None and shape[1:] == [1]
        name = self._name

        def finish(rows):
            rows = rows[0] if len(rows) == 1 else tf.concat(rows, 1)
            return rows if is_flat else samples.shaped(rows)

        return finish, [
            LookupRequest(samples, table, self._strategy.rows_of_input(i, name, offset))
            for table, offset, _ in parts
        ]

    def _requested_by_rows(
        self, i: int, samples: Samples, table: Table
    ) -> tuple[Callable, list[LookupRequest]]:
        samples = without_strangers(samples, self._strategy.config_of_input(i)["input_dim"])
        return lambda rows: samples.shaped(rows[0]), [LookupRequest(samples, table)]


def _looked_up(lookups: list[Lookup]) -> list[tf.Tensor]:
    """The rows of each lookup."""
    rows: dict[Lookup, tf.Tensor] = {}
    for group in _groups(lookups):
        rows.update(zip(group, lookup_group(group, insert=True)))
    return [rows[one] for one in lookups]


def _groups(lookups: list[Lookup]) -> Iterator[list[Lookup]]:
    """Yields the lookups in trained tables, then those in frozen ones.

    A rank computes no gradients of a group if it trains none of the group's tables; in a mixed
    group the other ranks would wait for it.
    """
    for is_trained in (True, False):
        yield [one for one in lookups if one.table.trainable == is_trained]


def _flat(ids: Ids) -> tf.Tensor:
    if isinstance(ids, tf.RaggedTensor):
        return ids.flat_values
    return ids.values if isinstance(ids, tf.SparseTensor) else ids


def _in_forms(
    inputs: Sequence[Ids], numbers: list[int], flat: Iterable[tf.Tensor]
) -> Iterator[Ids]:
    """Yields flat ids in the forms of the inputs of these numbers."""
    for i, ids in zip(numbers, flat):
        form = inputs[i]
        if isinstance(form, tf.RaggedTensor):
            ids = form.with_flat_values(ids)
        elif isinstance(form, tf.SparseTensor):
            ids = tf.SparseTensor(form.indices, ids, form.dense_shape)
        yield ids
