# SPDX-License-Identifier: Apache-2.0
"""strategy='auto' and `explain`."""

import io
import xml.etree.ElementTree as ET

import pytest

from sok_compat.distributed_embeddings.explanation import (
    explain,
    loads_of_ranks,
    placed_parts,
)
from sok_compat.distributed_embeddings.planning.strategy import DistEmbeddingStrategy
from sok_compat.distributed_embeddings.planning.workload import Workload

TINY = [
    *[(10_000, 8), (1_000_000, 16), (25_000_000, 16), (25_000_000, 16)],
    *[(10, 8)] * 16,
    *[(1000, 8)] * 10,
    *[(10_000, 8)] * 4,
    *[(100_000, 16)] * 2,
    *[(1_000_000, 16)] * 19,
]
INPUTS = [0, 0, 1, 1, 2, 2, *range(3, len(TINY))]
HOTNESS = [1, 10, 1, 10, 1, 10, *[1] * (len(TINY) - 3)]


class Embedding:
    """What a plan asks of a layer; the package's name makes it a known kind."""

    __module__ = "sok_compat.of_this_test"

    def __init__(self, input_dim, output_dim, **config):
        self._config = {"input_dim": input_dim, "output_dim": output_dim, **config}

    def get_config(self):
        return self._config


class Other(Embedding):
    pass


def plan(shapes, num_ranks, strategy="auto", input_table_map=None, layer=Embedding, **options):
    layers = [layer(*shape, combiner="sum") for shape in shapes]
    return DistEmbeddingStrategy(layers, num_ranks, strategy, input_table_map, **options)


def busiest(strategy):
    return max(load.seconds for load in loads_of_ranks(strategy))


@pytest.mark.parametrize("num_ranks", [2, 4, 8])
@pytest.mark.parametrize("strategy", ["basic", "memory_balanced", "memory_optimized"])
def test_busiest_rank_has_no_more_to_do_than_by_other_strategies(num_ranks, strategy):
    workload = Workload(hotness=HOTNESS)
    other = plan(TINY, num_ranks, strategy, INPUTS, workload=workload)
    chosen = plan(TINY, num_ranks, "auto", INPUTS, workload=workload)
    assert busiest(chosen) <= busiest(other)


def test_hotness_counts():
    """Two tables of one size, of which one is asked for much more: it is cut, or has a rank."""
    shapes = [(1_000_000, 16)] * 4
    cold = plan(shapes, 2, workload=Workload(hotness=1))
    hot = plan(shapes, 2, workload=Workload(hotness=[50, 1, 1, 1]))
    assert sorted(map(len, cold.table_ids)) == [2, 2]
    num_slices = sum(tables.count(0) for tables in hot.table_ids)
    assert num_slices == 2 or sorted(map(len, hot.table_ids)) == [1, 3]
    assert busiest(hot) < busiest(
        plan(shapes, 2, "basic", workload=Workload(hotness=[50, 1, 1, 1]))
    )


def test_slow_links_copy_small_tables():
    shapes = [(40, 8), (1_000_000, 16), (1_000_000, 16)]
    slow = Workload(link_bytes_per_second=1e6, hotness=[100, 1, 1], batch_size=512)
    assert plan(shapes, 4, workload=slow).table_groups[0] == [0]
    assert plan(shapes, 4, workload=slow, columns_only=True).table_groups == [[], [0, 1, 2], []]


def test_what_is_too_large_for_a_rank_is_cut_by_rows():
    limit = Workload(rank_bytes=150e6)
    chosen = plan([(1_000_000, 16), (10_000, 16)], 2, workload=limit)
    assert chosen.table_groups == [[], [1], [0]]
    assert max(load.table_bytes for load in loads_of_ranks(chosen)) <= 150e6
    with pytest.raises(ValueError, match=r"need .* MiB more on a rank than the 9.537 MiB of rank_"):
        plan([(1_000_000, 16)], 2, workload=Workload(rank_bytes=1e7))


def test_layers_that_cannot_be_cut_are_copied():
    assert plan([(1000, 4)] * 2, 2, layer=Other).table_groups == [[0, 1], [], []]
    assert plan([(1000, 4)] * 2, 2, layer=Other).reasons[0] == "its layer cannot be cut"


def test_each_number_of_all_tables_is_somewhere_once():
    chosen = plan(TINY, 8, "auto", INPUTS, workload=Workload(hotness=HOTNESS))
    num_floats = [0] * len(TINY)
    for part in placed_parts(chosen):
        first, end = map(int, part.where.split()[1].split(":")) if ":" in part.where else (0, 0)
        columns = end - first if "columns" in part.where else TINY[part.table][1]
        num_floats[part.table] += part.num_rows * columns / (8 if part.where == "copy" else 1)
    assert num_floats == [rows * columns for rows, columns in TINY]


def test_one_rank_has_all():
    assert plan([(10, 4)] * 2, 1).strategy == "basic"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"row_slice_threshold": 1}, r"leave out \['row_slice_threshold'\]"),
        ({"workload": Workload(hotness=[1])}, "hotness needs a number for each of the 2 inputs"),
    ],
)
def test_wrong_options_raise_with_auto(options, message):
    with pytest.raises(ValueError, match=message):
        plan([(4, 2), (4, 2)], 2, **options)


@pytest.mark.parametrize(
    "wrong", [{"batch_size": 0}, {"link_bytes_per_second": -1}, {"hotness": -1}, {"num_slots": -1}]
)
def test_wrong_workloads_raise(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Workload(**wrong)


def test_explanation_says_what_is_where_and_why(tmp_path):
    strategy = DistEmbeddingStrategy(
        [Embedding(100, 8, name="words"), Embedding(4, 4, name="days"), Embedding(51, 4)],
        2,
        column_slice_threshold=400,
        data_parallel_threshold=16,
        row_slice_threshold=10_000,
        workload=Workload(batch_size=100, hotness=[3, 1, 1]),
    )
    printed = io.StringIO()
    text = explain(strategy, file=printed, picture=tmp_path / "loads.svg")
    assert printed.getvalue() == text + "\n"
    lines = [line.split() for line in text.splitlines()]
    assert ["0", "0", "(words)", "columns", "0:4", "100", "3,200", "300"] in [
        line[:8] for line in lines
    ]
    assert [line[4] for line in lines if line[2:4] == ["(words)", "columns"]] == ["0:4", "4:8"]
    assert sum(line[1:4] == ["1", "(days)", "copy"] for line in lines) == 2
    picture = ET.parse(tmp_path / "loads.svg").getroot()
    assert len(picture.findall("{http://www.w3.org/2000/svg}rect")) == 3 * 2
    chosen = explain(plan([(1000, 4)] * 3, 2), file=printed)
    assert "why:" in chosen and "  2: " in chosen


def test_explanation_of_something_else_raises():
    with pytest.raises(TypeError, match="got list"):
        explain([])
