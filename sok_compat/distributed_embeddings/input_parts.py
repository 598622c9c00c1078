# SPDX-License-Identifier: Apache-2.0
"""Inputs of which each rank is given its part of the batch, looked up in tables that are cut."""

import tensorflow as tf

from sok_compat.distributed_embeddings.samples import (
    Asked,
    lookups_of,
    samples_of_inputs,
    without_strangers,
)
from sok_compat.distributed_embeddings.strategy import BY_COLUMNS, BY_ROWS
from sok_compat.lookup.group import lookup_group


class InputParts:
    """What looks them up: one group of lookups, whatever the number of tables."""

    def __init__(self, strategy, tables, ranks, name, layers):
        """Looks nothing up.

        Args:
          strategy: the DistEmbeddingStrategy.
          tables: the PlacedTables.
          ranks: the Ranks.
          name: of the layer, for messages.
          layers: of this rank's joined tables, called where these are on variables.
        """
        self._strategy, self._tables, self._ranks = strategy, tables, ranks
        self._name, self._layers = name, layers

    @tf.autograph.experimental.do_not_convert
    def outputs(self, inputs):
        """{input: output} of those of tables that are cut.

        Args:
          inputs: the ids of all inputs.
        """
        asked = {}  # input: (function of the rows of its lookups, what is Asked)
        outputs = {}
        parts = {
            i: self._parts_of(number)
            for number, i in enumerate(self._strategy.input_groups[BY_COLUMNS])
        }
        of_tables = [i for i in parts if parts[i][0][0] is not None]
        samples = self._samples(inputs, [*of_tables, *self._strategy.input_groups[BY_ROWS]])
        for i in parts.keys() - {*of_tables}:  # a layer on a variable, with one rank
            ((_, offset, layer),) = parts[i]
            outputs[i] = layer(tf.cast(inputs[i], tf.int64) + offset if offset else inputs[i])
        for i in of_tables:
            asked[i] = self._asked_by_columns(i, inputs[i], samples[i], parts[i])
        groups = zip(self._strategy.input_groups[BY_ROWS], self._strategy.map_groups[BY_ROWS])
        for i, table in groups:
            asked[i] = self._asked_by_rows(i, samples[i], self._tables.by_rows[table])
        lookups = lookups_of(
            [one for _, of_input in asked.values() for one in of_input], self._name
        )
        rows = iter(_looked_up(lookups))
        for i, (finish, of_input) in asked.items():
            outputs[i] = finish([next(rows) for _ in of_input])
        return outputs

    def _samples(self, inputs, numbers):
        """{input: its Samples} of inputs by their numbers."""
        combiners = [self._strategy.config_of_input(i).get("combiner") for i in numbers]
        found = samples_of_inputs([inputs[i] for i in numbers], combiners, self._name)
        return dict(zip(numbers, found))

    def _parts_of(self, number):
        """[(table, row offset, layer)] of the slices of an input of the group, in the order of
        their columns; the layer where it is on a variable, and has no table."""
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

    def _asked_by_columns(self, i, ids, samples, parts):
        config = self._strategy.config_of_input(i)
        shape = getattr(ids, "shape", None)
        is_flat = self._ranks.size > 1 and config.get("combiner") is None and shape[1:] == [1]

        def finish(rows):
            rows = rows[0] if len(rows) == 1 else tf.concat(rows, 1)
            return rows if is_flat else samples.shaped(rows)

        return finish, [
            Asked(samples, table, config["input_dim"], offset) for table, offset, _ in parts
        ]

    def _asked_by_rows(self, i, samples, table):
        samples = without_strangers(samples, self._strategy.config_of_input(i)["input_dim"])
        return lambda rows: samples.shaped(rows[0]), [Asked(samples, table, table.capacity)]


def _looked_up(lookups):
    """The rows of each. Frozen tables are a group of their own: on a rank that trains none of a
    group's tables, nothing would ask for gradients, and the others would wait for it."""
    rows = {}
    for is_trained in (True, False):
        group = [one for one in lookups if one.table.trainable == is_trained]
        rows.update(zip(group, lookup_group(group, insert=True)))
    return [rows[one] for one in lookups]
