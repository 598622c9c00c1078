# SPDX-License-Identifier: Apache-2.0
"""Tables that a checkpoint has, but not the graph that is restored from it."""

import logging

import tensorflow as tf

_logger = logging.getLogger(__name__)
_ENDS = {"/keys": "/rows", "-keys": "-partition_offset"}  # of a table's tensors, by layout


def warn_of_tables_left_out(path, graph):
    """One line in the log that names the tables of a checkpoint that the graph has not; else none.

    Args:
      path: of the checkpoint; where there is none, who restores says so.
      graph: that is restored.
    """
    try:
        names = {name for name, _ in tf.train.list_variables(path)}
    except (tf.errors.OpError, ValueError):
        return
    in_graph = set(_tables_in(graph))
    left_out = sorted(
        table
        for table in _tables_among(names)
        if not any(table == known or table.startswith(f"{known}/") for known in in_graph)
    )
    if left_out:
        _logger.warning(
            "tables of %s that this graph does not have are not restored: %s",
            path,
            ", ".join(left_out),
        )


def _tables_among(names):
    """Of tensors: the tables, and also the slots of those that are saved as DeepRec saves them."""
    for name in names:
        for end, beside in _ENDS.items():
            if name.endswith(end) and name.removesuffix(end) + beside in names:
                yield name.removesuffix(end)


def _tables_in(graph):
    """By the names that scripts and checkpoints know them by."""
    for op in graph.get_operations():
        if op.type in ("SokTableInitialize", "SokRestoreRows"):
            yield tf.compat.as_str(op.get_attr("table_name"))
        elif op.type == "SokRestoreBuckets":
            yield from map(tf.compat.as_str, op.get_attr("heads"))
