# SPDX-License-Identifier: Apache-2.0
"""Graphs whose variables become constants, and tables: refused, since keys would be lost."""

import functools

from sok_compat.runtime import integrations

_HANDLE_OP = "SokTableHandle"  # of which each table has one


def refuse_to_freeze_tables():
    """Makes convert_variables_to_constants raise for graphs with tables, from now on.

    It knows variables: it would freeze the rows, and leave the search for keys in the graph,
    without the keys.
    """
    integrations.apply("convert_variables_to_constants", _freezing_others)


def _freezing_others(replace_variables):
    @functools.wraps(replace_variables)
    def replace_others(converter_data):
        tables = _tables(converter_data.graph_def)
        if tables:
            raise NotImplementedError(
                f"a graph with tables cannot be frozen, got {tables}: constants would have their "
                "rows, but not the keys. Export it with tf.compat.v1.saved_model, which saves both"
            )
        return replace_variables(converter_data)

    return replace_others


def _tables(graph_def):
    """Names of the nodes that stand for tables, in the graph and its functions."""
    nodes = list(graph_def.node)
    for function in graph_def.library.function:
        nodes += function.node_def
    return [node.name for node in nodes if node.op == _HANDLE_OP]
