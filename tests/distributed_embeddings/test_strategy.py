# SPDX-License-Identifier: Apache-2.0
"""Plans are those of distributed-embeddings; where its own were wrong, they are right."""

import json
from pathlib import Path

import pytest

from sok_compat.distributed_embeddings.planning.strategy import DistEmbeddingStrategy

PLANS = Path(__file__).with_name("plans.txt")


class Layer:
    """What a plan asks of a layer."""

    def __init__(self, input_dim, output_dim, **config):
        self._config = {"input_dim": input_dim, "output_dim": output_dim, **config}

    def get_config(self):
        return self._config


def plan(shapes, num_ranks, **options):
    return DistEmbeddingStrategy((Layer(*shape) for shape in shapes), num_ranks, **options)


def known_plans():
    """[(tables, number of ranks, options, {attribute: value})]"""
    for block in PLANS.read_text().split("\n\n")[1:]:
        head, *lines = block.strip().splitlines()
        tables, num_ranks, options = head.split(" | ")
        options = dict(option.split("=") for option in options.split())
        options = {k: v if k == "strategy" else json.loads(v) for k, v in options.items()}
        attributes = dict(line.split() for line in lines)
        attributes = {name: json.loads(value) for name, value in attributes.items()}
        yield [table_of(text) for text in tables.split()], int(num_ranks), options, attributes


def table_of(text):
    shape, _, combiner = text.partition(":")
    rows, columns = shape.split("x")
    return Layer(int(rows), int(columns), combiner=combiner or None)


def shapes_of(configs):
    return [[[one["input_dim"], one["output_dim"]] for one in of_rank] for of_rank in configs]


def attribute(strategy, name):
    if name == "local_shapes":
        return shapes_of(strategy.local_configs)
    if name == "row_slice_shapes":
        return shapes_of(strategy.row_sliced_configs)
    if name == "local_cpu_offload":
        return [[one["cpu_offload"] for one in of_rank] for of_rank in strategy.local_configs]
    return getattr(strategy, name)


KNOWN = list(known_plans())


def test_all_known_plans_are_read():
    assert len(KNOWN) == 79
    assert {len(attributes) for *_, attributes in KNOWN} == {4, 6, 15, 17}


@pytest.mark.parametrize(("tables", "num_ranks", "options", "attributes"), KNOWN)
def test_plan_is_the_known_one(tables, num_ranks, options, attributes):
    strategy = DistEmbeddingStrategy(tables, num_ranks, **options)
    assert {name: attribute(strategy, name) for name in attributes} == attributes


def test_ranges_go_by_the_tables_of_inputs():
    """There they went by the input's position where slices of its table came together."""
    options = {"strategy": "memory_balanced", "column_slice_threshold": 40}
    strategy = plan([(10, 4), (15, 4), (5, 4)], 2, input_table_map=[1, 0, 2], **options)
    assert strategy.table_ids == [[0, 2], [1]]
    assert strategy.sliced_out_ranges == [[0, 1]]


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("strategy", ["basic", "memory_balanced", "memory_optimized"])
@pytest.mark.parametrize("threshold", [None, 0, 8, 100])
def test_each_column_is_somewhere_once(num_ranks, strategy, threshold):
    shapes = [(2, 2), (3, 6), (3, 2), (100, 8), (20, 8), (10, 1)]
    made = plan(shapes, num_ranks, strategy=strategy, column_slice_threshold=threshold)
    for table, (rows, columns) in enumerate(shapes):
        slices = [one for rank in made.plans for one in rank.slices if one.table == table]
        covered = [column for one in slices for column in range(
            one.first_column, one.first_column + one.num_columns)]  # fmt: skip
        assert covered == list(range(columns))  # from left to right in the order of ranks
        assert {one.num_rows for one in slices} == {rows}


def test_tables_that_differ_are_not_joined():
    layers = [Layer(4, 2, embeddings_initializer=name) for name in ("ones", "zeros", "ones")]
    strategy = DistEmbeddingStrategy(layers, 1)
    assert strategy.local_group_list == [[[0, 2], [1]]]
    frozen = [Layer(4, 2, trainable=is_trained) for is_trained in (True, False)]
    assert DistEmbeddingStrategy(frozen, 1).local_group_list == [[[0], [1]]]


def test_more_ranks_than_rows():
    strategy = plan([(2, 4)], 3, row_slice_threshold=1)
    assert shapes_of(strategy.row_sliced_configs) == [[[1, 4]], [[1, 4]], [[0, 4]]]


def test_no_tables_to_cut_by_columns():
    strategy = plan([(2, 4)], 2, data_parallel_threshold=8)
    assert strategy.table_groups == [[0], [], []]
    assert strategy.local_configs == [[], []]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "best"}, "Unsupported shard strategy best.*'memory_optimized'"),
        ({"input_table_map": [0, 2]}, r"Wrong input .* \[0, 2\] must have indices of the 2 tables"),
        ({"input_table_map": [-1]}, "Wrong input initializing input/map groups"),
    ],
)
def test_wrong_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        plan([(4, 2), (4, 2)], 2, **options)


def test_layer_without_sizes_raises():
    class NoSizes:
        def get_config(self):
            return {"output_dim": 3}

    with pytest.raises(ValueError, match="NoSizes has no input_dim"):
        DistEmbeddingStrategy([NoSizes()], 1)
