# SPDX-License-Identifier: Apache-2.0
"""One way of doing a job: a graph in a session of its own, and the ops that are timed."""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

LEARNING_RATE = 0.1
FIRST_VALUE = 0.05  # of all contenders' rows
FIRST_VALUES = tf1.constant_initializer(FIRST_VALUE)
TOLERANCE = 1e-3  # relative, of losses; they sum in different orders
BATCH_FOR_MEAN = 1  # what sok.Init is told: losses here are means already


@dataclasses.dataclass(frozen=True)
class Parts:
    """What a contender's graph is made of."""

    inputs: list  # placeholders
    ops: dict  # by name: an op, a tensor, or a list of them
    loss: tf.Tensor | None = None  # equal among contenders that have taken the same steps
    first: list = dataclasses.field(default_factory=list)  # run before the initializers


class Contender:
    """Use as a context: the session and its memory are gone at the end."""

    def __init__(self, name, build, num_threads):
        """Builds the graph and initializes it.

        Args:
          name: in reports.
          build: a function without arguments that returns Parts, in the default graph.
          num_threads: of TensorFlow, within an op and between ops; a pair where they differ.
        """
        self.name = name
        with tf.Graph().as_default() as graph:
            parts = build()
            initialize = tf1.global_variables_initializer()
            self._ops = {what: _as_ops(fetches) for what, fetches in parts.ops.items()}
        self._inputs, self._loss = parts.inputs, parts.loss
        within, between = num_threads if isinstance(num_threads, tuple) else (num_threads,) * 2
        config = tf1.ConfigProto(
            intra_op_parallelism_threads=within, inter_op_parallelism_threads=between
        )
        self._session = tf1.Session(graph=graph, config=config)
        for op in (*parts.first, initialize):
            self._session.run(op)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._session.close()

    def run(self, what, *values):
        """One step of the op, with the values of its inputs."""
        self._session.run(self._ops[what], dict(zip(self._inputs, values)))

    def op_times(self, what, *values):
        """{type of op: (how many, milliseconds)} of one step."""
        metadata, traced = tf1.RunMetadata(), tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        feeds = dict(zip(self._inputs, values))
        self._session.run(self._ops[what], feeds, traced, metadata)
        times = {}
        for device in metadata.step_stats.dev_stats:
            for node in device.node_stats:
                # The label is "name = Type(inputs)".
                kind = node.timeline_label.partition(" = ")[2].partition("(")[0]
                count, taken = times.get(kind, (0, 0.0))
                times[kind] = (count + 1, taken + 1e-3 * node.all_end_rel_micros)
        return times

    def loss(self, *values):
        """The loss of a batch."""
        return self._session.run(self._loss, dict(zip(self._inputs, values)))


def check_losses(contenders, batch):
    """Raises RuntimeError unless the losses of a batch agree: then all did the same job."""
    losses = {contender.name: float(contender.loss(*batch)) for contender in contenders}
    if not np.allclose(list(losses.values()), next(iter(losses.values())), rtol=TOLERANCE, atol=0):
        raise RuntimeError(f"the contenders have not done the same job: losses {losses}")


def _as_ops(fetches):
    """Ops, so that a step fetches no megabytes to Python; not in a tf.group, into which Grappler
    would optimize them away."""
    return [
        fetch.op if isinstance(fetch, tf.Tensor) else fetch for fetch in tf.nest.flatten(fetches)
    ]
