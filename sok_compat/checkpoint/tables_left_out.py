# SPDX-License-Identifier: Apache-2.0
"""Tables that a checkpoint has, but not the graph that is restored from it."""

import logging

import tensorflow as tf

from sok_compat.checkpoint.files.table_names import find_tables, tensors_of

_logger = logging.getLogger(__name__)


def warn_of_tables_left_out(path, graph):
    """One line in the log that names the tables of a checkpoint that the graph has not; else none.

    Args:
      path: of the checkpoint; where there is none, who restores says so.
      graph: that is restored.
    """
    try:
        reader = tf.train.load_checkpoint(path)
    except (tf.errors.OpError, ValueError):
        return
    in_graph = set(_tables_in(graph))
    left_out = sorted(
        table
        for table in _tables_of(reader)
        if not any(table == known or table.startswith(f"{known}/") for known in in_graph)
    )
    if left_out:
        _logger.warning(
            "tables of %s that this graph does not have are not restored: %s",
            path,
            ", ".join(left_out),
        )


def _tables_of(reader):
    """Of a checkpoint; of a table in parts, each part."""
    tables = find_tables(tensors_of(reader))
    return [keys[: -len("/keys")] for table in tables for keys in table.keys]


def _tables_in(graph):
    """By the names that scripts and checkpoints know them by."""
    for op in graph.get_operations():
        if op.type in ("SokTableInitialize", "SokRestoreRows"):
            yield tf.compat.as_str(op.get_attr("table_name"))
        elif op.type == "SokRestoreBuckets":
            yield from map(tf.compat.as_str, op.get_attr("heads"))
