# SPDX-License-Identifier: Apache-2.0
"""Walks through TensorFlow's graphs, and the state that this package keeps with a graph."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import tensorflow as tf

from sok_compat.runtime.tf_versions import members

_Node = TypeVar("_Node")
CALLS_OF_FUNCTIONS = (
    *("PartitionedCall", "StatefulPartitionedCall"),
    *("If", "StatelessIf", "While", "StatelessWhile"),
)
CALLS_OF_PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
_PICK = (  # ops whose first input has the numbers of the output, others say which
    *("Cast", "DynamicPartition", "ExpandDims", "GatherNd", "GatherV2", "Reshape", "Slice"),
    *("Squeeze", "StridedSlice"),
)


def ops_before(op: tf.Operation) -> list[tf.Operation]:
    """The ops that an op waits for: those that compute its inputs, and its control inputs."""
    return [*(tensor.op for tensor in op.inputs), *op.control_inputs]


@tf.autograph.experimental.do_not_convert
def ancestors(
    nodes: Iterable[_Node], through: Callable[[Any], Iterable[_Node]] = ops_before
) -> Iterator[_Node]:
    """Yields tensors or ops, and what they depend on, each once, the nearest not always first.

    `through` returns what to visit behind a tensor or op; nothing: the walk ends there.
    """
    seen: dict[int, _Node] = {}  # by id: tensors have no hash
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            yield node
            waiting += through(node)


@tf.autograph.experimental.do_not_convert
def outside(tensor: tf.Tensor) -> list[tf.Tensor]:
    """A tensor, then the tensors of the same value around it, outermost last.

    These are the inputs of identities, of loops and conditions of TensorFlow 1, and what functions
    and branches have captured.
    """
    return list(ancestors([tensor], _around))


def _around(tensor: tf.Tensor) -> list[tf.Tensor]:
    if tf.is_symbolic_tensor(tensor) and tensor.op.type in ("Identity", "Enter", "Switch"):
        return [tensor.op.inputs[0]]
    return captured_as(tensor)


def captured_as(tensor: tf.Tensor) -> list[tf.Tensor]:
    """[the tensor that a function has captured as this one], or []."""
    is_argument = tf.is_symbolic_tensor(tensor) and tensor.op.type == "Placeholder"
    captures = getattr(tensor.graph, "captures", ()) if is_argument else ()
    return [outer for outer, inner in captures if inner is tensor]


def numbers_from(tensor: tf.Tensor) -> list[tf.Tensor]:
    """The tensors from whose numbers an op makes those of an output, as they are or computed."""
    op = tensor.op
    if op.type in ("IdentityN", "SokDistinctKeys"):  # IdentityN: of custom gradients
        return [op.inputs[tensor.value_index]]
    if op.type in _PICK:
        return [op.inputs[0]]
    if op.type == "TensorScatterUpdate":
        return [op.inputs[0], op.inputs[2]]
    same = [x for x in op.inputs if x.dtype.base_dtype == tensor.dtype.base_dtype]
    return captured_as(tensor) or same


def functions_of(op: tf.Operation) -> Iterator[Any]:
    """Yields the FunctionDefs that an op calls, directly or not, each once."""
    definition_of = functools.cache(functools.partial(members.function_in, op.graph))

    def called_by(nodes: Iterable[Any]) -> list[Any]:
        values = [value for node in nodes for value in node.attr.values()]
        names = [f.name for value in values for f in (value.func, *value.list.func)]
        return [function for function in map(definition_of, names) if function is not None]

    return ancestors(called_by([op.node_def]), lambda function: called_by(function.node_def))


@tf.autograph.experimental.do_not_convert
def graphs_around(graph: tf.Graph) -> Iterator[tf.Graph]:
    """Yields a graph, and the graphs around it if it is a function's; the outermost last."""
    yield graph
    while is_function(graph):
        graph = graph.outer_graph
        yield graph


def is_function(graph: tf.Graph) -> bool:
    """Whether a graph is the body of a function, or a branch or loop of control flow v2."""
    return hasattr(graph, "outer_graph")


def _empty(kind: type) -> Any:
    return dataclasses.field(default_factory=kind)


@dataclasses.dataclass(eq=False)
class GraphState:
    """What this package remembers of a graph as long as the graph lives, or of eager code."""

    # Collectives: their names are numbered in each graph.
    number: int | None = None  # of the graph, the same on all ranks
    lookups: collections.Counter[str] = _empty(collections.Counter)
    reductions: collections.Counter[str] = _empty(collections.Counter)
    gradients: collections.Counter[str] = _empty(collections.Counter)  # of lookups
    wire_dtype: str | None = None
    row_dtype: str | None = None  # of tables that are made without one
    # Lookups and their gradients.
    prefetched: list[Any] = _empty(list)  # the calls of prefetch_lookups
    admissions: dict[Any, list[tf.Tensor]] = _empty(dict)
    gradients_of_rows: dict[str, Any] = _empty(dict)
    fed_row_ids: set[str] = _empty(set)  # names of ops that this package feeds with row ids
    step: Any = None  # by which gradients count keys
    assumed_step: Any = None  # the same, until gradients are applied with another one
    # Savers and optimizers.
    shared_savers: dict[str, bool] = _empty(dict)  # by save tensor: whether all ranks save
    saves_objects: bool = False  # together with other ranks
    exports: dict[str, Any] = _empty(dict)  # by table: the tensors of its contents
    dumps: dict[Any, Any] = _empty(dict)  # by what they move: the ops of sok.dump and sok.load
    micro_batches: list[Any] = _empty(list)  # steps that are made of several batches
    has_whole_steps: bool = False  # has steps of one batch


_of_eager_code = GraphState()


def state_of(graph: tf.Graph | None) -> GraphState:
    """The GraphState of a graph; None: of eager code."""
    if graph is None:
        return _of_eager_code
    if not hasattr(graph, "sok_compat_state"):
        graph.sok_compat_state = GraphState()
    return graph.sok_compat_state


def state_here() -> GraphState:
    """The GraphState of the graph being built, or of eager code."""
    return state_of(None if tf.executing_eagerly() else tf.compat.v1.get_default_graph())
