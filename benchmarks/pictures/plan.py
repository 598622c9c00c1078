# SPDX-License-Identifier: Apache-2.0
"""Which rank holds which parts of tables, by three plans: `python -m benchmarks.pictures.plan`.

The tables are those of the synthetic model Tiny. Nothing is trained: a plan needs no variables.
"""

from distributed_embeddings.python.layers import dist_model_parallel as dmp
from distributed_embeddings.python.layers.embedding import Embedding

from benchmarks.pictures import measured
from benchmarks.synthetic_models import MODELS
from sok_compat.distributed_embeddings.explanation import placed_parts

MODEL, NUM_RANKS = "tiny", 4
_PLANS = {  # {title: arguments of DistEmbeddingStrategy}
    "whole tables": {"strategy": "memory_balanced"},
    "cut by columns": {"strategy": "memory_balanced", "column_slice_threshold": 100_000_000},
    "auto": {"strategy": "auto"},
}
_MOST_PARTS = 4  # of a rank; the smaller ones are added up


def make_plan(arguments):
    """The DistEmbeddingStrategy of MODEL on NUM_RANKS ranks."""
    model = MODELS[MODEL]
    layers = [Embedding(rows, width, combiner="sum") for rows, width in model.shapes()]
    tables, hotness = zip(*model.inputs())
    return dmp.DistEmbeddingStrategy(
        layers,
        NUM_RANKS,
        input_table_map=tables,
        workload=dmp.Workload(hotness=hotness),
        **arguments,
    )


def parts_of_ranks(plan):
    """[[[what, bytes], ...] for each rank], the largest part first."""
    ranks = []
    for rank in range(plan.world_size):
        parts = sorted(
            (part for part in placed_parts(plan) if part.rank == rank),
            key=lambda part: -part.load.table_bytes,
        )
        shown = [[f"{part.table}, {kind(part)}", _bytes(part)] for part in parts[:_MOST_PARTS]]
        others = parts[_MOST_PARTS:]
        ranks.append([*shown, [f"{len(others)} others", sum(map(_bytes, others))]])
    return ranks


def kind(part):
    """'whole', 'copy', 'columns' or 'rows'."""
    return part.where.partition(" ")[0]


def _bytes(part):
    return int(part.load.table_bytes)


def main():
    figures = {
        "model": MODEL,
        "parts": {
            title: parts_of_ranks(make_plan(arguments)) for title, arguments in _PLANS.items()
        },
    }
    measured.write("plan", "python -m benchmarks.pictures.plan", figures)


if __name__ == "__main__":
    main()
