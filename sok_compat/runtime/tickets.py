# SPDX-License-Identifier: Apache-2.0
"""Where the exchanges of a lookup meet those of other ranks: names that are the same on all."""

import collections
import contextlib
import itertools
import re
import threading
import weakref

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import CondBranchFuncGraph

_lookups = weakref.WeakKeyDictionary()  # {function: Counter of names}
_reductions = weakref.WeakKeyDictionary()  # the same, of reductions
_occurrences = weakref.WeakKeyDictionary()  # {graph: Counter of tickets}
_graph_numbers = weakref.WeakKeyDictionary()  # {graph of a session: how many came before}
_next_graph_number = itertools.count()
_numbers_apart = itertools.count(1 << 32)  # of graphs that one rank alone builds
_NUMBER_OF_ALL = -1  # of graphs that all ranks have, whatever others they have
_building = threading.local()  # .is_apart: such a graph is being built


def begin_lookup(name, description="", op_name="lookup", begin=ops.sok_begin_lookup):
    """The ticket of a lookup, or of what else all ranks take part in; a scalar variant tensor.

    What holds it may still exchange; a rank that has let go of it is not waited for.

    Args:
      name: the same on all ranks; several of a step may have the same.
      description: lines that must be the same on all ranks, else it fails and names the first that
        differs.
      op_name: of the op, in graphs.
      begin: the op, as a function of its attributes.
    """
    # Also for a branch that is not taken, and before everything else: a step that fails early has
    # begun its lookups, on all ranks the same.
    with tf.control_dependencies(None), _out_of_branches(), tf.device("CPU:0"):
        if tf.executing_eagerly():
            return ops.sok_begin_lookup(lookup=name, description=description, is_eager=True)
        graph = tf.compat.v1.get_default_graph()
        path, outermost = _functions_around(graph)
        name = "/".join([*path, name])
        count = _lookups.setdefault(graph, collections.Counter())
        count[name] += 1
        if count[name] > 1:
            name += f":{count[name]}"
        return begin(
            lookup=name, description=description, graph=_number_of(outermost), name=op_name
        )


def graph_beside(graph=None):
    """A new tf.Graph whose tickets meet those of the same one beside that graph on other ranks.

    Args:
      graph: of a session; None: what all ranks do, whatever graphs they have built.
    """
    beside = tf.Graph()
    _graph_numbers[beside] = _NUMBER_OF_ALL if graph is None else _number_of(graph)
    return beside


def is_of_one_rank():
    """Whether a graph is being built that other ranks do not build."""
    return getattr(_building, "is_apart", False)


@contextlib.contextmanager
def graphs_of_one_rank():
    """A context for building graphs that other ranks do not: for these, they do not count, and
    tables are this rank's alone."""
    before = is_of_one_rank()
    _building.is_apart = True
    try:
        yield
    finally:
        _building.is_apart = before


def named_reduction(what):
    """The arguments {name, ignore_name_scope} of one of Horovod's collectives.

    In a graph its name is the same on all ranks that have the same reductions in the same order,
    whatever else is in their graphs, or in what other graphs. In eager mode Horovod names it.

    Args:
      what: is reduced, such as the name of a variable; several may be the same.
    """
    if tf.executing_eagerly():
        return {}
    graph = tf.compat.v1.get_default_graph()
    is_function = hasattr(graph, "outer_graph")  # of which each call has a scope
    name = ".".join([*_functions_around(graph)[0], what])
    count = _reductions.setdefault(graph, collections.Counter())
    count[name] += 1
    name = re.sub("[^A-Za-z0-9_.-]", "_", f"sok_compat.{name}.{count[name]}")
    return {"name": name, "ignore_name_scope": not is_function}


def gradient_occurrence(ticket):
    """How many gradients of that lookup the function or graph that is being built already takes.

    Args:
      ticket: of the lookup.
    """
    if tf.executing_eagerly():
        return 0
    graph = _around_branches(tf.compat.v1.get_default_graph())
    ticket = _outside_of_branches(ticket)
    name = ticket.name if tf.is_symbolic_tensor(ticket) else "eager"
    count = _occurrences.setdefault(graph, collections.Counter())
    count[name] += 1
    return count[name] - 1


def _out_of_branches():
    """The graph around the branches of tf.cond, as a context."""
    if tf.executing_eagerly():
        return contextlib.nullcontext()
    innermost = tf.compat.v1.get_default_graph()
    graph = _around_branches(innermost)
    return contextlib.nullcontext() if graph is innermost else graph.as_default()


def _around_branches(graph):
    while isinstance(graph, CondBranchFuncGraph):
        graph = graph.outer_graph
    return graph


def _outside_of_branches(tensor):
    """What a tensor that a branch has captured is outside of it."""
    while tf.is_symbolic_tensor(tensor) and isinstance(tensor.graph, CondBranchFuncGraph):
        captured = [outer for outer, inner in tensor.graph.captures if inner is tensor]
        if not captured:
            break
        (tensor,) = captured
    return tensor


def _functions_around(graph):
    """(names of the functions that are being built, outermost first, the graph around them)."""
    names = []
    while hasattr(graph, "outer_graph"):
        # Without the numbers that tell one process's functions apart.
        names.insert(0, re.sub(r"(_\d+)+$", "", graph.name))
        graph = graph.outer_graph
    return names, graph


def _number_of(graph):
    if graph not in _graph_numbers:
        _graph_numbers[graph] = next(_numbers_apart if is_of_one_rank() else _next_graph_number)
    return _graph_numbers[graph]
