# SPDX-License-Identifier: Apache-2.0
"""`explain`: a plan's placement of tables, its load on each rank and its reasons, as text and as a
picture."""

from __future__ import annotations

import dataclasses
import html
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

from sok_compat.distributed_embeddings.distributed_embedding import DistributedEmbedding
from sok_compat.distributed_embeddings.planning.strategy import (
    BY_COLUMNS,
    BY_ROWS,
    REPLICATED,
    DistEmbeddingStrategy,
)
from sok_compat.distributed_embeddings.planning.workload import Load

_TITLES = ("rank", "table", "slice", "rows", "bytes", "ids", "exchange")
_BAR, _BAR_WIDTH, _TEXT_WIDTH = 18, 320, 150  # pixels of the picture


@dataclasses.dataclass(frozen=True)
class PlacedPart:
    """One rank's part of one table.

    where: 'columns 0:4', 'rows 0:25', 'whole' or 'copy'.
    num_rows: rows of the part.
    load: of a step, including the requests of other ranks.
    """

    rank: int
    table: int
    where: str
    num_rows: int
    load: Load


def explain(
    layer: DistributedEmbedding | DistEmbeddingStrategy,
    file: TextIO | None = None,
    picture: str | os.PathLike | None = None,
) -> str:
    """Prints the place of each table in a plan, the load of a step on each rank, and the reasons.

    Added by sok_compat. The numbers are estimates by the plan's `workload`. Bytes of tables include
    the optimizer's slots. Ids are those that all ranks together look up in the rank's parts in a
    step. The exchange is the bytes that the rank sends and receives for them.

    Args:
      layer: a DistributedEmbedding or a DistEmbeddingStrategy.
      file: where to print; None: sys.stdout.
      picture: path of an SVG file to write, with the memory, ids and exchange of each rank; or
        None.

    Returns:
      The text.

    Raises:
      TypeError: layer is neither.
      ValueError: the length of the workload's hotness is not the number of inputs.
    """
    strategy = getattr(layer, "strategy", None)
    strategy = strategy if isinstance(strategy, DistEmbeddingStrategy) else layer
    if not isinstance(strategy, DistEmbeddingStrategy):
        raise TypeError(
            "explain needs a DistributedEmbedding or a DistEmbeddingStrategy, got "
            f"{type(layer).__name__}"
        )
    text = _as_text(strategy)
    print(text, file=sys.stdout if file is None else file)
    if picture is not None:
        with open(picture, "w", encoding="utf-8") as svg:
            svg.write(_as_svg(loads_of_ranks(strategy)))
    return text


def placed_parts(strategy: DistEmbeddingStrategy) -> list[PlacedPart]:
    """Returns the PlacedParts of all ranks, rank after rank."""
    costs, parts = strategy.costs(), []
    for rank in range(strategy.world_size):
        for table in strategy.table_groups[REPLICATED]:
            rows = strategy.shape(table)[0]
            parts.append(PlacedPart(rank, table, "copy", rows, costs[table].of_copy()))
        for one in strategy.plans[rank].slices:
            table = strategy.table_groups[BY_COLUMNS][one.table]
            end = one.first_column + one.num_columns
            is_whole = one.num_columns == strategy.shape(table)[1]
            where = "whole" if is_whole else f"columns {one.first_column}:{end}"
            load = costs[table].of_owner(one.num_columns)
            parts.append(PlacedPart(rank, table, where, one.num_rows, load))
        for place, table in enumerate(strategy.table_groups[BY_ROWS]):
            rows = strategy.row_sliced_configs[rank][place]["input_dim"]
            begin = -strategy.row_inputs_offsets[rank][place]
            where = f"rows {begin}:{begin + rows}"
            parts.append(PlacedPart(rank, table, where, rows, costs[table].of_rows()))
    return parts


def loads_of_ranks(strategy: DistEmbeddingStrategy) -> list[Load]:
    """Returns the Load of each rank in a step, including its requests of other ranks."""
    costs = strategy.costs()
    loads = [Load()] * strategy.world_size
    for part in placed_parts(strategy):
        loads[part.rank] += part.load
    for owner, plan in enumerate(strategy.plans):
        for one in plan.slices:
            cost = costs[strategy.table_groups[BY_COLUMNS][one.table]]
            requester = cost.of_requester(one.num_columns)
            loads = [x if rank == owner else x + requester for rank, x in enumerate(loads)]
    return loads


def _as_text(strategy: DistEmbeddingStrategy) -> str:
    parts, loads = placed_parts(strategy), loads_of_ranks(strategy)
    lines = [_TITLES, *(_cells(strategy, part) for part in parts)]
    totals = [
        ("rank", "bytes", "ids", "exchange", "time"),
        *(
            (f"{rank}", *_numbers(load), f"{load.seconds * 1e6:,.1f} us")
            for rank, load in enumerate(loads)
        ),
    ]
    title = f"strategy {strategy.strategy!r}, {strategy.world_size} ranks, {strategy.workload}"
    text = [
        *textwrap.wrap(title, 100, subsequent_indent="  "),
        *_aligned(lines),
        "each rank, including its requests of others:",
        *_aligned(totals),
    ]
    if strategy.reasons:
        text.append("why:")
        text += [f"  {_name(strategy, table)}: {why}" for table, why in strategy.reasons.items()]
    return "\n".join(text)


def _cells(strategy: DistEmbeddingStrategy, part: PlacedPart) -> tuple[str, ...]:
    name = _name(strategy, part.table)
    return f"{part.rank}", name, part.where, f"{part.num_rows:,}", *_numbers(part.load)


def _numbers(load: Load) -> tuple[str, ...]:
    numbers = load.table_bytes, load.lookups, load.exchange_bytes
    return tuple(f"{round(number):,}" for number in numbers)


def _name(strategy: DistEmbeddingStrategy, table: int) -> str:
    name = strategy.global_configs[table].get("name")
    return f"{table} ({name})" if name else f"{table}"


def _aligned(lines: Iterable[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines)]
    return ["  ".join(map(str.rjust, line, widths)) for line in lines]


def _as_svg(loads: list[Load]) -> str:
    """Bars for each rank's memory, ids and exchange, relative to the largest of all ranks."""
    kinds = [
        ("bytes of tables", [load.table_bytes for load in loads], "#4c78a8"),
        ("ids looked up", [load.lookups for load in loads], "#f58518"),
        ("bytes exchanged", [load.exchange_bytes for load in loads], "#54a24b"),
    ]
    shapes, y = [], _BAR
    for title, values, color in kinds:
        shapes.append(_svg_text(0, y, f"{title}, of each rank in a step"))
        y += _BAR // 2
        for rank, value in enumerate(values):
            width = _BAR_WIDTH * value / max(max(values), 1)
            shapes.append(_svg_text(0, y + _BAR - 5, f"{rank}"))
            shapes.append(
                f'<rect x="40" y="{y}" width="{width:.1f}" height="{_BAR - 4}" fill="{color}"/>'
            )
            shapes.append(_svg_text(46 + width, y + _BAR - 5, f"{round(value):,}"))
            y += _BAR
        y += 2 * _BAR
    size = f'width="{40 + _BAR_WIDTH + _TEXT_WIDTH}" height="{y}"'
    style = 'font-family="sans-serif" font-size="12"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n' + "\n".join(
        [*shapes, "</svg>\n"]
    )


def _svg_text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y}">{html.escape(text)}</text>'
