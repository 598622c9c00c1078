# SPDX-License-Identifier: Apache-2.0
"""Prefetches the next batch, and the requests of its lookups, while a step runs.

A thread makes batches (`PrefetchRunner`), and steps take them. A batch has slots of tensors: the
first slot holds the batch itself. The thread also computes inputs of lookups that depend on the
batch alone, in copies of the step's ops.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.lookup.prefetching.runner import PrefetchRunner
from sok_compat.runtime.checked_values import checked_count
from sok_compat.runtime.graphs import ancestors, is_function, state_here, state_of
from sok_compat.runtime.op_library import ops

_logger = logging.getLogger("sok_compat")
tf1 = tf.compat.v1

_numbers = itertools.count()  # of the batches of a process; part of their name
tf.no_gradient("SokPrefetchTake")
_CONTROL_FLOW = ("Enter", "RefEnter", "Merge", "RefMerge", "NextIteration", "Exit", "Switch")


def prefetch_lookups(batch: Any, capacity: int = 1) -> Any:
    """Reads the next batch, and exchanges the keys of its lookups, during the current step.

    Added by sok_compat. The numbers are the same as without it, bit for bit. For graphs only. Wrap
    the output of `iterator.get_next()`, or values computed from it. Keys that also depend on a
    placeholder or a variable are exchanged in their step. A thread makes the batches:
    MonitoredSession starts it; in other sessions call `tf.train.start_queue_runners(sess)` before
    the first step.

    Rows are read, and keys get rows, in the step that takes the batch; of tables in files, pages of
    rows and slots are brought into memory before. An invalid key or another error of a batch fails
    this step, and the end of the data raises tf.errors.OutOfRangeError there. Each `session.run` of
    a tensor that depends on the batch takes one, on all ranks alike.

    Args:
      batch: tensors, SparseTensors or RaggedTensors, or a nest of them.
      capacity: most batches that wait for a step, an int >= 1; one more is being made.

    Returns:
      As `batch`.

    Raises:
      ValueError: in eager mode or in a function; batch has no tensor; capacity is out of range.
    """
    if tf.executing_eagerly() or is_function(tf1.get_default_graph()):
        raise ValueError(
            "prefetch_lookups is for graphs of sessions; in eager mode and functions, use "
            "tf.data.Dataset.prefetch"
        )
    capacity = checked_count("capacity", capacity, 1)
    sources = tf.nest.flatten(batch, expand_composites=True)
    if not sources:
        raise ValueError(f"prefetch_lookups needs tensors, got {batch!r}")
    return tf.nest.pack_sequence_as(
        batch, _Batches(sources, capacity).taken, expand_composites=True
    )


def prefetched_request(
    inputs: Sequence[tf.Tensor],
    send_request: Callable[[list[tf.Tensor], Callable[..., tf.Tensor]], list[tf.Tensor]],
) -> list[tf.Tensor] | None:
    """Returns the prefetched result of `send_request`; None if the step has to send the request.

    Args:
      send_request: called with the thread's copies of the inputs and its `begin_collective`;
        returns a list of tensors.
    """
    if tf.executing_eagerly():
        return None
    for batches in state_here().prefetched:
        copies = batches.copies_of(inputs)
        if copies is not None:
            return batches.put_and_take(send_request(copies, batches.begin_collective))
    return None


class _Batches:
    """The batches of one call of prefetch_lookups.

    Attributes:
      taken: the step's tensors for `sources`, in their order.
    """

    def __init__(self, sources: Sequence[Any], capacity: int) -> None:
        graph = tf1.get_default_graph()
        self._graph = graph
        number = len(state_of(graph).prefetched)
        self._where = {"batches": f"batches_{number}_{next(_numbers)}", "capacity": capacity}
        with tf.control_dependencies(None), tf.device("CPU:0"):
            self._batch = ops.sok_prefetch_next(**self._where)
            self._runner = PrefetchRunner(self._where)
        tf1.train.add_queue_runner(self._runner)
        sources = [tf.convert_to_tensor(source) for source in sources]
        self.taken = self.put_and_take(sources)
        self._sources = {taken.name: source for taken, source in zip(self.taken, sources)}
        self._refused: set[str] = set()
        state_of(graph).prefetched.append(self)

    def begin_collective(self, **attributes: Any) -> tf.Tensor:
        """As ops.sok_begin_collective, for the thread."""
        return ops.sok_begin_prefetched_collective(start=self._runner.start, **attributes)

    def put_and_take(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Puts the thread's `tensors` into a slot, and returns the step's tensors taken from it."""
        slot = len(self._runner.puts)
        with tf.control_dependencies(None), tf.device("CPU:0"):
            self._runner.puts.append(ops.sok_prefetch_put(tensors, slot=slot, **self._where))
            types = [tensor.dtype for tensor in tensors]
            taken = ops.sok_prefetch_take(self._batch, T=types, slot=slot)
        for mine, source in zip(taken, tensors):
            mine.set_shape(source.shape)
        return list(taken)

    def copies_of(self, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor] | None:
        """Returns copies of the inputs computed by the thread; None unless they depend on the batch
        alone."""
        if any(tensor.graph is not self._graph for tensor in inputs):
            return None
        if self._batch.op not in ancestors(tensor.op for tensor in inputs):
            return None
        nodes = list(ancestors(self._computed(inputs), self._before))
        for problem in filter(None, map(_why_not, nodes)):
            self._say(problem)
            return None
        graph_def = tf1.GraphDef()  # the graph has the functions that ops call
        for op in nodes:
            node = graph_def.node.add()
            node.CopyFrom(op.node_def)
            node.attr.pop("_class", None)  # colocation with ops that are not copied
        with tf.control_dependencies(None), _no_scope(self._graph):
            needed = {name for node in graph_def.node for name in map(_output_name, node.input)}
            known = {name: t for name, t in self._sources.items() if name in needed}
            wanted = [tensor.name for tensor in inputs if tensor.name not in self._sources]
            copied = tf.graph_util.import_graph_def(
                graph_def, input_map=known, return_elements=wanted, name="prefetch"
            )
        copied = {**dict(zip(wanted, copied)), **self._sources}
        return [copied[tensor.name] for tensor in inputs]

    def _computed(self, tensors: Iterable[tf.Tensor]) -> list[tf.Operation]:
        """The ops of those tensors that the batch does not hold."""
        return [tensor.op for tensor in tensors if tensor.name not in self._sources]

    def _before(self, op: tf.Operation) -> list[tf.Operation]:
        """What an op waits for up to the batch; nothing for an op that cannot be copied."""
        return [] if _why_not(op) else [*self._computed(op.inputs), *op.control_inputs]

    def _say(self, problem: str) -> None:
        if problem not in self._refused:
            self._refused.add(problem)
            _logger.warning("prefetch_lookups: keys are exchanged in their step: %s", problem)


def _why_not(op: tf.Operation) -> str | None:
    """Returns why the thread cannot run an op, or None."""
    if op.type in ("SokPrefetchTake", "SokPrefetchNext") or op.type.startswith("Placeholder"):
        return f"they depend on {op.name} ({op.type})"
    if op.type in _CONTROL_FLOW:
        return f"{op.name} is in a loop or branch of control flow v1"
    if op.op_def is not None and op.op_def.is_stateful and op.type != "Assert":
        return f"they depend on {op.name} ({op.type}), which may change from step to step"
    if any(tensor.dtype in (tf.resource, tf.variant) for tensor in op.inputs):
        return f"{op.name} ({op.type}) reads a resource"
    return None


def _output_name(name: str) -> str:
    """Returns the full name of an input in a NodeDef."""
    return name if ":" in name or name.startswith("^") else f"{name}:0"


@contextlib.contextmanager
def _no_scope(graph: tf.Graph) -> Iterator[None]:
    with graph.name_scope(None):
        yield
