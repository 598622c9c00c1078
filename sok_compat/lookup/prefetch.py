# SPDX-License-Identifier: Apache-2.0
"""The next batch, and what its lookups request of owners, made while a step runs.

A thread makes batches (`PrefetchRunner`); steps take them. Between the two stand slots of a batch,
of tensors: the first has the batch itself. What a step computes from it alone, and a lookup needs
before rows are read, is computed by the thread instead, in copies of the step's ops.
"""

import contextlib
import itertools
import logging

import tensorflow as tf

from sok_compat.lookup.prefetch_runner import PrefetchRunner
from sok_compat.runtime.op_library import ops

_logger = logging.getLogger("sok_compat")
tf1 = tf.compat.v1

_numbers = itertools.count()  # of batches of a process, by which their slots are found
tf.no_gradient("SokPrefetchTake")
_CONTROL_FLOW = ("Enter", "RefEnter", "Merge", "RefMerge", "NextIteration", "Exit", "Switch")


def prefetch_lookups(batch, capacity=1):
    """The batch that an input pipeline gives, read while the step before runs; and so is asked of
    other ranks what lookups need of it. The numbers are those without, bit for bit.

    In graphs. Around what `iterator.get_next()` gives, or what is computed from it: whatever layers
    look up must depend on nothing else, no placeholder and no variable, or it is asked for in the
    step as ever. A thread makes the batches; MonitoredSession starts it, in another session
    `tf.train.start_queue_runners(sess)` does, before the first step.

    Rows are read in their step, and keys get rows there. So a key that its table cannot take, and
    anything else that is wrong with a batch, fails the step that takes it; the end of the data
    raises tf.errors.OutOfRangeError there. Each `session.run` of a tensor that depends on the batch
    takes one, on all ranks alike.

    Args:
      batch: tensors, SparseTensors or RaggedTensors, or a nest of them.
      capacity: batches that may wait to be taken, an int >= 1; one more is being made.

    Returns:
      As `batch`.

    Raises:
      ValueError: in eager mode or in a function; no tensor; capacity out of range.
    """
    if tf.executing_eagerly() or hasattr(tf1.get_default_graph(), "outer_graph"):
        raise ValueError(
            "sok.prefetch_lookups is for graphs of sessions: in eager mode and functions, "
            "tf.data.Dataset.prefetch reads ahead"
        )
    if not isinstance(capacity, int) or capacity < 1:
        raise ValueError(f"capacity must be an int >= 1, got {capacity!r}")
    sources = tf.nest.flatten(batch, expand_composites=True)
    if not sources:
        raise ValueError(f"sok.prefetch_lookups needs tensors, got {batch!r}")
    return tf.nest.pack_sequence_as(
        batch, _Batches(sources, capacity).taken, expand_composites=True
    )


def prefetched_request(inputs, send_request):
    """The result of `send_request` by the thread that makes batches; None: the step has to send it.

    Args:
      inputs: tensors of the step.
      send_request: a function of these tensors as the thread has them, and of what begins its
        lookups, that gives a list of tensors.
    """
    if tf.executing_eagerly():
        return None
    graph = tf1.get_default_graph()
    for batches in getattr(graph, "_sok_prefetched_batches", ()):
        copies = batches.copies_of(inputs)
        if copies is not None:
            return batches.put_and_take(send_request(copies, batches.begin_collective))
    return None


class _Batches:
    """The batches of one call of prefetch_lookups.

    Attributes:
      taken: what a step has of `sources`, in their order.
    """

    def __init__(self, sources, capacity):
        graph = tf1.get_default_graph()
        self._graph = graph
        number = len(getattr(graph, "_sok_prefetched_batches", ()))
        self._where = {"batches": f"batches_{number}_{next(_numbers)}", "capacity": capacity}
        with tf.control_dependencies(None), tf.device("CPU:0"):
            self._batch = ops.sok_prefetch_next(**self._where)
            self._runner = PrefetchRunner(self._where)
        tf1.train.add_queue_runner(self._runner)
        sources = [tf.convert_to_tensor(source) for source in sources]
        self.taken = self.put_and_take(sources)
        self._sources = {taken.name: source for taken, source in zip(self.taken, sources)}
        self._depends = {}  # {name of an op: whether it depends on a batch}
        self._refused = set()
        if not hasattr(graph, "_sok_prefetched_batches"):
            graph._sok_prefetched_batches = []
        graph._sok_prefetched_batches.append(self)

    def begin_collective(self, **attributes):
        """As ops.sok_begin_collective, of the thread."""
        return ops.sok_begin_prefetched_collective(start=self._runner.start, **attributes)

    def put_and_take(self, tensors):
        """The step's of what the thread has as `tensors`."""
        slot = len(self._runner.puts)
        with tf.control_dependencies(None), tf.device("CPU:0"):
            self._runner.puts.append(ops.sok_prefetch_put(tensors, slot=slot, **self._where))
            types = [tensor.dtype for tensor in tensors]
            taken = ops.sok_prefetch_take(self._batch, T=types, slot=slot)
        for mine, source in zip(taken, tensors):
            mine.set_shape(source.shape)
        return list(taken)

    def copies_of(self, inputs):
        """The tensors, computed from what the thread has; None: they depend on no batch, or on
        something else, too."""
        if any(tensor.graph is not self._graph for tensor in inputs):
            return None
        if not any(self._is_of_batch(tensor.op) for tensor in inputs):
            return None
        nodes, problem = self._nodes_before(inputs)
        if problem:
            self._say(problem)
            return None
        graph_def = tf1.GraphDef(library=self._graph.as_graph_def().library)
        for op in nodes:
            node = graph_def.node.add()
            node.CopyFrom(op.node_def)
            node.attr.pop("_class", None)  # places beside ops that are not copied
        with tf.control_dependencies(None), _no_scope(self._graph):
            needed = {name for node in graph_def.node for name in map(_output_name, node.input)}
            known = {name: t for name, t in self._sources.items() if name in needed}
            wanted = [tensor.name for tensor in inputs if tensor.name not in self._sources]
            copied = tf.graph_util.import_graph_def(
                graph_def, input_map=known, return_elements=wanted, name="prefetch"
            )
        copied = {**dict(zip(wanted, copied)), **self._sources}
        return [copied[tensor.name] for tensor in inputs]

    def _is_of_batch(self, op):
        """Whether it depends on what a step takes; what is known of ops is kept."""
        waiting = [op]
        while waiting:
            last = waiting[-1]
            before = _before(last)
            unknown = [each for each in before if each.name not in self._depends]
            if last.name in self._depends:
                waiting.pop()
            elif last.name == self._batch.op.name:
                self._depends[last.name] = True
            elif unknown and last.type not in _CONTROL_FLOW:
                waiting.extend(unknown)
            else:
                self._depends[last.name] = any(self._depends.get(each.name) for each in before)
        return self._depends[op.name]

    def _nodes_before(self, tensors):
        """(the ops between what a step takes and `tensors`; what of them cannot be copied)."""
        found, waiting = {}, [t.op for t in tensors if t.name not in self._sources]
        while waiting:
            op = waiting.pop()
            if op.name in found:
                continue
            problem = _why_not(op)
            if problem:
                return (), problem
            found[op.name] = op
            waiting.extend(t.op for t in op.inputs if t.name not in self._sources)
            waiting.extend(op.control_inputs)
        return list(found.values()), None

    def _say(self, problem):
        if problem not in self._refused:
            self._refused.add(problem)
            _logger.warning("sok.prefetch_lookups: keys are exchanged in their step: %s", problem)


def _before(op):
    return [*(tensor.op for tensor in op.inputs), *op.control_inputs]


def _why_not(op):
    """Why an op cannot be run by the thread; None: it can."""
    if op.type in ("SokPrefetchTake", "SokPrefetchNext") or op.type.startswith("Placeholder"):
        return f"they depend on {op.name} ({op.type})"
    if op.type in _CONTROL_FLOW:
        return f"{op.name} is in a loop or branch of control flow v1"
    if op.op_def is not None and op.op_def.is_stateful and op.type != "Assert":
        return f"they depend on {op.name} ({op.type}), which may change from step to step"
    if any(tensor.dtype in (tf.resource, tf.variant) for tensor in op.inputs):
        return f"{op.name} ({op.type}) reads a resource"
    return None


def _output_name(name):
    """Of an input in a NodeDef."""
    return name if ":" in name or name.startswith("^") else f"{name}:0"


@contextlib.contextmanager
def _no_scope(graph):
    with graph.name_scope(None):
        yield
