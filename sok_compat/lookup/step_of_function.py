# SPDX-License-Identifier: Apache-2.0
"""The step of a session that calls a function, made known to the tables that it uses there.

TensorFlow runs a function as a step of its own, unless it has put the function's ops in the place
of the call. What a step has admitted, and the rows that it may hold, are of the step around it.
"""

import contextlib

import tensorflow as tf

from sok_compat.runtime.op_library import ops


@contextlib.contextmanager
def known_step(tables):
    """A context for ops that find rows of tables, or give rows to keys, with a history of keys.

    Args:
      tables: handles.
    """
    joins = []
    for table in tables if _is_in_function() else ():
        number = _number_of_step(_outermost(table))
        if number is not None:
            joins.append(ops.sok_join_step(table, number))
    with tf.control_dependencies(joins):
        yield


def _is_in_function():
    return not tf.executing_eagerly() and _is_of_function(tf.compat.v1.get_default_graph())


def _is_of_function(graph):
    return hasattr(graph, "outer_graph")


def _outermost(handle):
    """What a handle that functions have captured is in the graph of a session; None: it is given as
    an argument, or there is no session."""
    while tf.is_symbolic_tensor(handle) and _is_of_function(handle.graph):
        outer = [outer for outer, inner in handle.graph.captures if inner is handle]
        handle = outer[0] if outer else None
    return handle if tf.is_symbolic_tensor(handle) else None


def _number_of_step(handle):
    """In that graph, of which each step runs it once."""
    with tf.init_scope():
        if handle is None or tf.executing_eagerly():
            return None
        if handle.graph is not tf.compat.v1.get_default_graph():
            return None
        if not hasattr(handle.graph, "_sok_numbers_of_steps"):
            handle.graph._sok_numbers_of_steps = {}
        numbers = handle.graph._sok_numbers_of_steps
        if handle.name not in numbers:
            with tf.device(handle.device):
                numbers[handle.name] = ops.sok_number_of_step(handle)
        return numbers[handle.name]
