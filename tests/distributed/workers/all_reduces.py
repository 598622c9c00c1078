# SPDX-License-Identifier: Apache-2.0
"""hvd.allreduce beside lookups, whose exchanges may carry it: sums, and who has made them."""

import sys

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.lookup.group import Lookup, lookup_group
from sok_compat.tables import Table
from tests.distributed.workers.ranks import RANK, hvd, report, session_config

tf1 = tf.compat.v1
STEPS = 3
SHAPES = [(3, 5), (), (0, 4), (17,), (70, 101)]  # the last is sent in two exchanges by many ranks


class Step:
    """A lookup, and tensors of several shapes that differ from rank to rank and step to step."""

    def __init__(self):
        sok.Init(global_batch_size=8, seed=3)
        self.keys = tf1.placeholder(tf.int64, [None])
        self.scale = tf1.placeholder(tf.float32, [])
        table = Table(100, 4, name="table")
        self.vectors = lookup_group([Lookup(table, self.keys)], True)[0]
        rng = np.random.default_rng(RANK)
        values = [rng.standard_normal(shape).astype(np.float32) for shape in SHAPES]
        self.tensors = [self.scale * value for value in values]
        with sok.OptimizerScope([table]):
            loss = tf.reduce_sum(tf.square(self.vectors))
            self.train_op = sok.tf.keras.optimizers.LazyAdamOptimizer(0.05).apply_gradients(
                [(tf.gradients(loss, table)[0], table)]
            )

    def run(self, fetches, *, with_lookup=True):
        """([what each step gives], bytes that sok_compat sent for it)"""
        with tf1.Session(config=session_config()) as session:
            session.run(tf1.global_variables_initializer())
            before = sok.communication_stats().dense_bytes
            seen = []
            for step in range(STEPS):
                feeds = {self.scale: 1.0 + step, self.keys: [RANK, RANK + step]}
                run = [fetches, self.train_op] if with_lookup else [fetches]
                seen.append(session.run(run, feeds)[0])
            return seen, sok.communication_stats().dense_bytes - before


def in_graph(make, **options):
    with tf.Graph().as_default():
        step = Step()
        return step.run(make(step), **options)


def sums_and_means(step):
    scaled = {"prescale_factor": 0.5, "postscale_factor": 0.3}
    return [
        [hvd.allreduce(tensor, op=hvd.Sum) for tensor in step.tensors],
        [hvd.allreduce(tensor, op=hvd.Average) for tensor in step.tensors],
        [hvd.allreduce(tensor, op=hvd.Sum, **scaled) for tensor in step.tensors],
        hvd.grouped_allreduce(step.tensors, op=hvd.Sum),
    ]


def in_pieces(step):
    """Sums of so many numbers that they take several exchanges, by places that tell them apart."""
    numbers = tf.cast(tf.range(1_200_001) % 1009, tf.float32) * (step.scale + RANK)
    sums = hvd.allreduce(numbers, op=hvd.Sum)
    return [sums[::997], sums[-100:], tf.reduce_sum(sums)]


def after_the_lookup(step):
    """One sum depends on another, and on the lookup; gradients go back the same way."""
    first = hvd.allreduce(tf.reduce_mean(step.vectors) + step.tensors[0], op=hvd.Sum)
    second = hvd.allreduce(tf.square(first), op=hvd.Average)
    return [second, tf.gradients(second, step.tensors[0])[0]]


def in_other_scopes(step):
    """Sums that ranks make in scopes of their own, in another order, by names that they give."""
    named = {}
    for name in ("first", "second")[:: 1 - 2 * (RANK % 2)]:
        with tf.name_scope(f"rank{RANK}"):
            named[name] = hvd.allreduce(
                step.tensors[name == "first"], op=hvd.Sum, name=name, ignore_name_scope=True
            )
    return [named["first"], named["second"]]


def of_other_kinds(step):
    """What Horovod does itself; the first depends on another of its own name."""
    tensor = step.tensors[0]
    with tf.name_scope("one"):
        one = hvd.allreduce(tensor, op=hvd.Sum, name="same", ignore_name_scope=True)
    with tf.name_scope("other"):
        other = hvd.allreduce(one, op=hvd.Sum, name="same", ignore_name_scope=True)
    return [
        other,
        hvd.allreduce(tf.cast(tensor, tf.float64), op=hvd.Sum),
        hvd.allreduce(tf.cast(10.0 * tensor, tf.int32), op=hvd.Sum),
        hvd.allreduce(tensor, op=hvd.Max),
        hvd.allreduce(tensor, op=hvd.Sum, compression=hvd.Compression.fp16),
        tf.cond(
            step.scale > 1.5,
            lambda: hvd.allreduce(tensor, op=hvd.Sum),
            lambda: tf.zeros_like(tensor),
        ),
    ]


def of_optimizer(step):
    """The variables of a dense layer that hvd.DistributedOptimizer trains."""
    weights = tf1.get_variable("weights", [4, 9], initializer=tf1.ones_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(step.vectors, weights) - step.scale))
    optimizer = hvd.DistributedOptimizer(tf1.train.GradientDescentOptimizer(0.1))
    with tf.control_dependencies([optimizer.minimize(loss, var_list=[weights])]):
        return weights.read_value()


def errors():
    """What ranks say of tensors of other shapes, and where one fails before it has any."""

    def fail(value):
        if RANK == 1:
            raise ValueError("the script's own error")
        return value

    texts = []
    with tf.Graph().as_default():
        step = Step()
        other = tf.reshape(step.tensors[0], [5, 3] if RANK else [3, 5])
        failing = tf1.py_func(fail, [step.tensors[3]], tf.float32)
        failing.set_shape(SHAPES[3])
        for tensor in (other, failing):
            try:
                step.run(hvd.allreduce(tensor, op=hvd.Sum))
                texts.append("")
            except tf.errors.OpError as error:
                texts.append(error.message)
        return texts, step.run(hvd.allreduce(step.tensors[0], op=hvd.Sum))[0]


def of_tape():
    """([weights after each step of a function with hvd.DistributedGradientTape], bytes sent)"""
    sok.Init(global_batch_size=8, seed=3)
    table = Table(100, 4, name="table")
    weights = tf.Variable(tf.ones([4, 9]))
    optimizer = tf.keras.optimizers.legacy.SGD(0.1)

    @tf.function
    def step(keys):
        with tf.GradientTape() as tape:
            vectors = lookup_group([Lookup(table, keys)], True)[0]
            loss = tf.reduce_mean(tf.square(tf.matmul(vectors, weights) - 1.0))
        tape = hvd.DistributedGradientTape(tape)
        optimizer.apply_gradients(zip(tape.gradient(loss, [weights]), [weights]))

    seen = []
    for number in range(STEPS):
        step(tf.constant([RANK, RANK + number], tf.int64))
        seen.append(weights.numpy())
    return seen, sok.communication_stats().dense_bytes


if __name__ == "__main__":
    if tf.executing_eagerly():
        report({"of_tape": of_tape()})
    else:
        makers = (
            sums_and_means,
            in_pieces,
            in_other_scopes,
            after_the_lookup,
            of_other_kinds,
            of_optimizer,
        )
        seen = {make.__name__: in_graph(make) for make in makers}
        seen["without_lookups"] = in_graph(sums_and_means, with_lookup=False)
        asks_for_errors = "errors" in sys.argv  # with Horovod, the other rank would wait for ever
        report({**seen, "errors": errors() if asks_for_errors else None})
