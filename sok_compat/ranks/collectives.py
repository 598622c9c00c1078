# SPDX-License-Identifier: Apache-2.0
"""Collectives of lookups and other ops, matched between ranks by equal names."""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from sok_compat.runtime.graphs import graphs_around, is_function, outside, state_of
from sok_compat.runtime.op_library import note_lookup, ops
from sok_compat.runtime.tf_versions import CondBranchFuncGraph, members

_next_graph_number = itertools.count()
_numbers_apart = itertools.count(1 << 32)  # of graphs that only one rank builds
_building = threading.local()  # .is_apart: whether a graph of one rank is being built


def begin_collective(
    name: str,
    description: str = "",
    op_name: str = "lookup",
    begin: Callable[..., tf.Tensor] = ops.sok_begin_collective,
    **attributes: Any,
) -> tf.Tensor:
    """Begins a collective, of a lookup or another op that all ranks take part in.

    Args:
      name: the same on all ranks; several collectives of a step may have one name.
      description: lines that must be the same on all ranks; if not, the collective fails and names
        the first difference.
      begin: the op, as a function of its attributes.
      **attributes: of the op, further ones.

    Returns:
      A scalar variant tensor, the collective's handle. While a rank keeps it, the others wait for
      that rank's exchanges.
    """
    # It begins before everything else, and for untaken branches as well: even if a step fails
    # early, all ranks have begun the same lookups.
    with tf.control_dependencies(None), _out_of_branches(), tf.device("CPU:0"):
        if tf.executing_eagerly():
            return ops.sok_begin_collective(lookup=name, description=description, is_eager=True)
        graph = tf.compat.v1.get_default_graph()
        path, outermost = _functions_around(graph)
        name = "/".join([*path, name])
        count = state_of(graph).lookups
        count[name] += 1
        if count[name] > 1:
            name += f":{count[name]}"
        number = number_of_graph(outermost)
        note_lookup(name, number)
        return begin(lookup=name, description=description, graph=number, name=op_name, **attributes)


def number_of_graph(graph: tf.Graph | None = None) -> int:
    """The number of a graph, None for the one that is being built, the same on all ranks; -1 for
    eager code."""
    if graph is None:
        if tf.executing_eagerly():
            return -1
        graph = _functions_around(tf.compat.v1.get_default_graph())[1]
    state = state_of(graph)
    if state.number is None:
        state.number = next(_numbers_apart if is_of_one_rank() else _next_graph_number)
    return state.number


def is_of_one_rank() -> bool:
    """Whether the graph being built is one that other ranks do not build."""
    return getattr(_building, "is_apart", False)


@contextlib.contextmanager
def graphs_of_one_rank() -> Iterator[None]:
    """Context for building graphs that other ranks do not build: they get no common numbers, and
    their tables belong to this rank alone."""
    before = is_of_one_rank()
    _building.is_apart = True
    try:
        yield
    finally:
        _building.is_apart = before


def named_reduction(what: str) -> dict[str, Any]:
    """The arguments {name, ignore_name_scope} for one of Horovod's collectives that reduces `what`.

    In a graph, ranks with the same reductions in the same order get the same names, whatever else
    their graphs contain. In eager mode it is empty, as Horovod picks names itself.
    """
    if tf.executing_eagerly():
        return {}
    graph = tf.compat.v1.get_default_graph()
    name = ".".join([*_functions_around(graph)[0], what])
    count = state_of(graph).reductions
    count[name] += 1
    name = re.sub("[^A-Za-z0-9_.-]", "_", f"sok_compat.{name}.{count[name]}")
    # Each call of a function has a scope.
    return {"name": name, "ignore_name_scope": not is_function(graph)}


def gradient_occurrence(collective: tf.Tensor) -> int:
    """Number of earlier gradients of a collective's lookup in the function or graph being built."""
    if tf.executing_eagerly():
        return 0
    graph = _around_branches(tf.compat.v1.get_default_graph())
    collective = next((x for x in outside(collective) if not _is_of_branch(x)), collective)
    name = collective.name if tf.is_symbolic_tensor(collective) else "eager"
    count = state_of(graph).gradients
    count[name] += 1
    return count[name] - 1


def is_in_branch() -> bool:
    """Whether a branch of tf.cond is being built, in either control flow of TensorFlow."""
    if tf.executing_eagerly():
        return False
    graph = tf.compat.v1.get_default_graph()
    context = members.control_flow_context(graph)
    return isinstance(graph, CondBranchFuncGraph) or (
        context is not None and context.IsCondContext()
    )


def _out_of_branches():
    """Context of the graph around the branches of tf.cond."""
    if tf.executing_eagerly():
        return contextlib.nullcontext()
    innermost = tf.compat.v1.get_default_graph()
    graph = _around_branches(innermost)
    return contextlib.nullcontext() if graph is innermost else graph.as_default()


def _around_branches(graph):
    return next(g for g in graphs_around(graph) if not isinstance(g, CondBranchFuncGraph))


def _is_of_branch(tensor):
    return tf.is_symbolic_tensor(tensor) and isinstance(tensor.graph, CondBranchFuncGraph)


def _functions_around(graph):
    """(names of the functions being built, outermost first; the graph around them)."""
    *functions, outermost = graphs_around(graph)
    # Without the numbers that make names unique in a process.
    return [re.sub(r"(_\d+)+$", "", each.name) for each in reversed(functions)], outermost
