# SPDX-License-Identifier: Apache-2.0
"""Lookups of several layers in one step, whose ops may be joined: what their steps give, and which
ops a step has."""

import collections
import sys
import time

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.lookup.group import Lookup, lookup_group
from sok_compat.runtime.exchange_trace import read_trace, start_trace
from sok_compat.tables import Table
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config, wait_for_all_ranks

tf1 = tf.compat.v1
NUM_KEYS, NUM_BAGS, STEPS = 30, 5, 4
KINDS = [(4, "int64", "none"), (8, "int64", "mean"), (4, "uint32", "sum"), (16, "int64", "none")]


class Model:
    """Tables of several kinds, the second of which is looked up twice."""

    def __init__(self, look_up):
        """look_up: gives the output of each of these functions, called in any way."""
        self.keys = tf1.placeholder(tf.int64, [None])
        self.splits = tf1.placeholder(tf.int64, [None])
        self.flag = tf1.placeholder(tf.bool, [])
        self.tables = [
            Table(100, dim, key_dtype=dtype, name=f"table{i}")
            for i, (dim, dtype, _) in enumerate(KINDS)
        ]
        calls = [lambda i=i, k=k: self._look_up(i, k) for k, i in enumerate([0, 1, 2, 3, 1])]
        self.outputs = look_up(self, calls)

    def _look_up(self, i, shift):
        dim, dtype, combiner = KINDS[i]
        keys = tf.cast((self.keys + shift) % NUM_KEYS, dtype)
        splits = None if combiner == "none" else self.splits
        return lookup_group([Lookup(self.tables[i], keys, splits, combiner)], True)[0]

    def train_op(self):
        loss = tf.add_n([tf.reduce_sum(tf.square(output - 0.5)) for output in self.outputs])
        adam = sok.tf.keras.optimizers.LazyAdamOptimizer(0.05)
        adagrad = tf1.train.AdagradOptimizer(0.1)
        gradients = tf.gradients(loss, self.tables)
        with sok.OptimizerScope(self.tables):
            return tf.group(
                adam.apply_gradients(zip(gradients[:3], self.tables[:3])),
                adagrad.apply_gradients(zip(gradients[3:], self.tables[3:])),
            )

    def feeds(self, rng):
        keys = rng.integers(0, NUM_KEYS, [SIZE, 20])[RANK]
        inner = np.sort(rng.integers(0, len(keys) + 1, [SIZE, NUM_BAGS - 1])[RANK])
        return {
            self.keys: keys,
            self.splits: np.concatenate([[0], inner, [len(keys)]]),
            self.flag: bool(rng.integers(2)),
        }


def side_by_side(model, calls):
    return [call() for call in calls]


def in_a_branch(model, calls):
    """The last one only in some steps, the same on all ranks."""
    outputs = side_by_side(model, calls[:-1])
    last = tf.cond(model.flag, calls[-1], lambda: tf.zeros([NUM_BAGS, 8]))
    return outputs + [tf.stop_gradient(last)]


def before_a_loop(model, calls):
    """What gradients come from is a loop."""
    return [
        tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x * 0.9), (0, call()))[1]
        for call in calls
    ]


def one_after_another(model, calls):
    """The keys of each depend on what the one before gave."""
    outputs = []
    for call in calls:
        with tf.control_dependencies(outputs[-1:]):
            outputs.append(call())
    return outputs


def ops_of(session, fetches, feeds):
    """{type: how many} of our ops in a step."""
    metadata = tf1.RunMetadata()
    options = tf1.RunOptions(output_partition_graphs=True)
    session.run(fetches, feeds, options=options, run_metadata=metadata)
    nodes = [node for graph in metadata.partition_graphs for node in graph.node]
    return dict(collections.Counter(node.op for node in nodes if node.op.startswith("Sok")))


def steps_of(look_up):
    """(the outputs of steps, of which some need the first two lookups only; the ops of a step)"""
    with tf.Graph().as_default():
        sok.Init(global_batch_size=8, seed=3)
        model = Model(look_up)
        trained = model.train_op()
        with tf1.Session(config=session_config()) as session:
            session.run(tf1.global_variables_initializer())
            rng = np.random.default_rng(5)
            seen = []
            for step in range(STEPS):
                seen.append(session.run([model.outputs, trained], model.feeds(rng))[0])
                seen.append(session.run(model.outputs[: 2 + step % 2], model.feeds(rng)))
            return seen, ops_of(session, [model.outputs, trained], model.feeds(rng))


def two_gradients():
    """Values of gradients of a loss that needs both of two lookups, and of one that needs the
    second alone, whose exchange other ranks come to earlier."""

    def wait(values):
        time.sleep(0.02 * (RANK == 0))
        return values

    with tf.Graph().as_default():
        sok.Init(global_batch_size=8, seed=3)
        tables = [Table(100, 4, name=name) for name in ("first", "second")]
        keys = tf1.placeholder(tf.int64, [None])
        outputs = [lookup_group([Lookup(table, keys)], True)[0] for table in tables]
        late = [tf1.py_func(wait, [output - 0.5], tf.float32) for output in outputs]
        gradients = tf.gradients(outputs, tables, grad_ys=late) + tf.gradients(
            outputs[1], tables[1:], grad_ys=[2.0 * outputs[1]]
        )
        values = [gradient.values for gradient in gradients]
        with tf1.Session(config=session_config()) as session:
            session.run(tf1.global_variables_initializer())
            rng = np.random.default_rng(7)
            batches = [rng.integers(0, 30, [SIZE, 9])[RANK] for _ in range(STEPS)]
            return [session.run(values, {keys: batch}) for batch in batches]


def steps_of_functions():
    """(The outputs of functions that eager code calls, and gradients of the last that it takes
    itself; how many requests they took)"""
    sok.Init(global_batch_size=8, seed=3)
    tables = [Table(100, dim, name=f"f{dim}") for dim in (4, 8, 12)]
    optimizer = sok.optimizers.Adam(0.05)

    @tf.function
    def step(keys):
        with tf.GradientTape() as tape:
            outputs = [lookup_group([Lookup(table, keys)], True)[0] for table in tables]
            loss = tf.add_n([tf.reduce_sum(tf.square(output - 0.5)) for output in outputs])
        gradients = tape.gradient(loss, tables)
        optimizer.apply_gradients(zip(gradients, tables))
        return outputs

    @tf.function
    def look_up(keys):
        return [lookup_group([Lookup(table, keys)], True)[0] for table in tables]

    rng = np.random.default_rng(6)
    batches = [tf.constant(rng.integers(0, 30, [SIZE, 9])[RANK]) for _ in range(STEPS)]
    for function in (step, look_up):
        function(batches[0])
    start_trace()
    outputs = [[output.numpy() for output in step(batch)] for batch in batches]
    with tf.GradientTape() as tape:
        loss = tf.add_n([tf.reduce_sum(tf.square(output)) for output in look_up(batches[0])])
    gradients = [gradient.values.numpy() for gradient in tape.gradient(loss, tables)]
    return [*outputs, gradients], len(read_trace())


def in_parts():
    """The outputs of two lookups of one partial run, of which the second is fed later."""
    with tf.Graph().as_default():
        sok.Init(global_batch_size=8, seed=3)
        keys = [tf1.placeholder(tf.int64, [None]) for _ in range(2)]
        outputs = [
            lookup_group([Lookup(Table(100, 4, name=name), key)], True)[0]
            for name, key in zip(("first", "second"), keys)
        ]
        with tf1.Session(config=session_config()) as session:
            session.run(tf1.global_variables_initializer())
            handle = session.partial_run_setup(outputs, keys)
            first = session.partial_run(handle, outputs[0], {keys[0]: [1, 2]})
            second = session.partial_run(handle, outputs[1], {keys[1]: np.arange(len(first))})
            return [first, second]


def errors_of_other_fetches():
    """What ranks say that run steps of other lookups."""
    with tf.Graph().as_default():
        sok.Init(global_batch_size=8, seed=3)
        model = Model(side_by_side)
        errors = []
        with tf1.Session(config=session_config()) as session:
            session.run(tf1.global_variables_initializer())
            for others in (model.outputs[:2], model.outputs[1:]):
                wait_for_all_ranks(f"step{len(errors)}")
                wanted = model.outputs if RANK == 0 else others
                try:
                    session.run(wanted, model.feeds(np.random.default_rng(1)))
                    errors.append("")
                except tf.errors.OpError as error:
                    errors.append(f"{type(error).__name__}: {error.message}")
    return errors


if __name__ == "__main__":
    if tf.executing_eagerly():
        report({"function": steps_of_functions()})
    else:
        ways = (side_by_side, in_a_branch, before_a_loop, one_after_another)
        seen = {way.__name__: steps_of(way) for way in ways}
        asks_for_errors = SIZE > 1 and "errors" in sys.argv  # apart, each would wait for the other
        seen["two_gradients"] = two_gradients(), None
        seen["in_parts"] = [in_parts()], None
        report({**seen, "errors": errors_of_other_fetches() if asks_for_errors else None})
