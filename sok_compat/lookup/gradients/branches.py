# SPDX-License-Identifier: Apache-2.0
"""Gradients of tables through conditions and loops: of what has no lookup, there are no slices.

For a branch without one TensorFlow makes zeros of the variable's shape, with as many rows as the
table's capacity, and it begins the sum of a loop of TensorFlow 1 with a zero slice of row 0. Most
of these rows do not exist, and optimizers would update the others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sok_compat.lookup.gradients.of_groups import dense_shape_of
from sok_compat.lookup.gradients.recomputed import read_no_tables_to_recompute
from sok_compat.runtime import integrations
from sok_compat.runtime.graphs import ancestors, is_function, state_of
from sok_compat.runtime.tf_versions import control_flow_ops, members
from sok_compat.tables.resource_handles import table_of_rows
from sok_compat.tables.table import Table


def prepare_for_gradients() -> None:
    """Every lookup calls it. It prepares for gradients: of recomputed layers and, in a function,
    branch or loop, of branches without a lookup and of loops."""
    if tf.executing_eagerly():
        return
    read_no_tables_to_recompute()
    graph = tf.compat.v1.get_default_graph()
    if is_function(graph) or members.control_flow_context(graph) is not None:
        make_no_zeros_of_tables()


def make_no_zeros_of_tables() -> None:
    """Makes TensorFlow use empty slices instead, in what is differentiated from now on."""
    integrations.apply("tf.cond, gradients", _with_empty_slices)
    integrations.apply("tf.cond of TensorFlow 1, gradients", _with_empty_slices_of_switches)
    integrations.apply("tf.while_loop of TensorFlow 1, gradients", _beginning_with_no_slices)


def _with_empty_slices(create_zeros: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(create_zeros)
    def create_zeros_but_of_tables(forward_graphs, grad_graphs):
        outputs = [graph.structured_outputs for graph in grad_graphs]
        for place, gradients in enumerate(zip(*outputs)):
            if not any(isinstance(gradient, tf.IndexedSlices) for gradient in gradients):
                continue
            for forward, graph, gradient in zip(forward_graphs, grad_graphs, gradients):
                table = table_of_rows(forward.inputs[place])
                if gradient is None and table is not None:
                    with graph.as_default():
                        empty = _no_rows(table, forward.inputs[place])
                    graph.structured_outputs[place] = empty
        return create_zeros(forward_graphs, grad_graphs)

    return create_zeros_but_of_tables


def _with_empty_slices_of_switches(zeros_like: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(zeros_like)
    def zeros_but_of_tables(op, index):
        context = members.control_flow_context(op)
        table = table_of_rows(op.inputs[0]) if op.type == "Switch" else None
        if table is None or context is None:
            return zeros_like(op, index)
        # As in TensorFlow: alive if the other branch is taken.
        handle = control_flow_ops.switch(op.inputs[0], context.pred)[1 - context.branch]
        with tf.control_dependencies([tf.identity(handle)]):
            return _no_rows(table, handle)

    return zeros_but_of_tables


def _beginning_with_no_slices(accumulate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(accumulate)
    def accumulate_but_zeros_of_tables(self, op, grad):
        total = accumulate(self, op, grad)
        if table_of_rows(op.inputs[0]) is None:
            return total
        first_inputs = functools.partial(ancestors, through=lambda each: [each.inputs[0].op])
        with members.outside_loop(self):
            for exits in (total.values, total.indices):
                enter = next(each for each in first_inputs([exits.op]) if each.type == "Enter")
                none, shape = enter.inputs[0][:0], [None, *enter.inputs[0].shape[1:]]
                none = tf.compat.v1.placeholder_with_default(none, shape)  # of no known size
                state_of(none.graph).fed_row_ids.add(none.op.name)
                members.reroute_input(enter, 0, none)
        return total

    return accumulate_but_zeros_of_tables


def _no_rows(table: Table, handle: tf.Tensor) -> tf.IndexedSlices:
    """Returns empty slices, of the types that gradients of lookups have."""
    return tf.IndexedSlices(
        tf.zeros([0, table.dim]), tf.zeros([0], tf.int64), dense_shape_of(handle)
    )
