# SPDX-License-Identifier: Apache-2.0
"""Warns of tables in a checkpoint that the restored graph lacks."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import tensorflow as tf

from sok_compat.checkpoint.files.table_names import find_tables

_logger = logging.getLogger(__name__)


def warn_of_tables_left_out(
    path: str, tensors: Mapping[str, tuple[str, tuple[int, ...]]], graph: tf.Graph
) -> None:
    """Logs the tables of a checkpoint that a graph lacks, if any, in one line."""
    in_graph = set(_tables_in(graph))
    left_out = sorted(
        table
        for table in _tables_of(tensors)
        if not any(table == known or table.startswith(f"{known}/") for known in in_graph)
    )
    if left_out:
        _logger.warning(
            "tables of %s that this graph does not have are not restored: %s",
            path,
            ", ".join(left_out),
        )


def _tables_of(tensors):
    """Names of a checkpoint's tables; each part of a table counts as one."""
    tables = find_tables(tensors)
    return [keys[: -len("/keys")] for table in tables for keys in table.keys]


def _tables_in(graph):
    """Yields names of a graph's tables, both their own and those in restored checkpoints."""
    for op in graph.get_operations():
        if op.type in ("SokTableInitialize", "SokRestoreSaved"):
            yield tf.compat.as_str(op.get_attr("table_name"))
